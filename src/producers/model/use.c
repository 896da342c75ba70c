#include "producers/model/use.h"

#include <assert.h>

/* Returns the sequence of the last event. */
static uint64_t now(const struct mt_runtime *rt)
{
    assert(mt_alloc_events(rt->alloc) > 0); /* a tensor in use was allocated */
    return mt_alloc_events(rt->alloc) - 1;
}

void mt_use_note(struct mt_runtime *rt, const struct mt_tensor *output, const struct mt_tensor *const *operands,
                 int count)
{
    uint64_t moment = now(rt);
    for (int i = 0; i < count; i++)
        if (operands[i] != NULL)
            mt_use_add_read(&operands[i]->storage->use, moment);
    mt_use_add_write(&output->storage->use, moment);
}

void mt_use_read(struct mt_runtime *rt, const struct mt_tensor *tensor)
{
    if (tensor != NULL)
        mt_use_add_read(&tensor->storage->use, now(rt));
}

void mt_use_write(struct mt_runtime *rt, const struct mt_tensor *tensor)
{
    if (tensor != NULL)
        mt_use_add_write(&tensor->storage->use, now(rt));
}

void mt_use_scratch(struct mt_runtime *rt, const struct mt_tensor *scratch)
{
    mt_use_write(rt, scratch);
    mt_use_read(rt, scratch);
}

static bool has_precision(mt_dtype dtype)
{
    return mt_is_floating(dtype) || mt_is_fp8(dtype);
}

void mt_use_copy(const struct mt_tensor *output, const struct mt_tensor *input)
{
    struct mt_use *use = &output->storage->use;
    assert(use->writes > 0);
    if (output->dtype == input->dtype || !has_precision(output->dtype) || !has_precision(input->dtype))
        return;
    if (use->writes == 1 && use->reads == 0)
        use->copied_from = input->storage->use.block;
}
