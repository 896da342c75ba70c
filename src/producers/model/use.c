#include "producers/model/use.h"

#include <assert.h>

/* Notes a use at `moment`; the pause before it may be the longest so far. */
static void touch(struct mt_use *use, uint64_t moment)
{
    assert(moment >= use->last && moment >= use->block); /* events are in order, and a use follows its alloc */
    if (use->reads + use->writes == 0)
        use->first = use->last = moment;
    if (moment - use->last > use->idle_to - use->idle_from) {
        use->idle_from = use->last;
        use->idle_to = moment;
    }
    use->last = moment;
}

static void read_at(struct mt_use *use, uint64_t moment)
{
    touch(use, moment);
    use->reads++;
    use->unread = false;
}

static void write_at(struct mt_use *use, uint64_t moment)
{
    touch(use, moment);
    use->writes++;
    use->unread = true;
}

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
            read_at(&operands[i]->storage->use, moment);
    write_at(&output->storage->use, moment);
}

void mt_use_read(struct mt_runtime *rt, const struct mt_tensor *tensor)
{
    if (tensor != NULL)
        read_at(&tensor->storage->use, now(rt));
}

void mt_use_write(struct mt_runtime *rt, const struct mt_tensor *tensor)
{
    if (tensor != NULL)
        write_at(&tensor->storage->use, now(rt));
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
