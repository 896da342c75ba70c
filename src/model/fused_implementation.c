/* The fused model behind the table of a training run. */
#include "base/memory.h"
#include "model/fused_model.h"
#include "model/implementation.h"

#include <stdlib.h>

static void *create(struct mt_runtime *rt, const struct mt_training_config *config)
{
    struct mt_fused_model *model = mt_host_alloc(sizeof *model);
    mt_fused_create(rt, config, model);
    return model;
}

static void destroy(struct mt_runtime *rt, void *model)
{
    mt_fused_destroy(rt, model);
    free(model);
}

static void forward(struct mt_runtime *rt, void *model, struct mt_tensor *inputs, struct mt_tensor *targets)
{
    mt_fused_forward(rt, model, inputs);
    if (targets == NULL)
        return;
    mt_runtime_phase(rt, MT_PHASE_LOSS);
    mt_fused_loss(rt, model, targets);
}

static const struct mt_tensor *loss(const void *model)
{
    return ((const struct mt_fused_model *)model)->loss;
}

static void backward(struct mt_runtime *rt, void *model, int64_t step, struct mt_gradient_watch watch)
{
    mt_fused_backward(rt, model, step, watch);
}

static void update(struct mt_runtime *rt, void *model, int64_t step)
{
    mt_fused_update(rt, model, step);
}

static void zero_grad(struct mt_runtime *rt, void *model)
{
    mt_fused_zero_grad(rt, model);
}

static uint64_t gradient_places(const void *model)
{
    const struct mt_fused_model *fused = model;
    uint64_t sum = 0;
    for (int64_t i = 0; i < fused->weight_count; i++)
        sum = mt_parameter_fold_place(sum, &fused->weights[i].parameter);
    return sum;
}

static void end_step(struct mt_runtime *rt, void *model)
{
    mt_fused_end_step(rt, model);
}

const struct mt_implementation mt_fused_implementation = {
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .loss = loss,
    .backward = backward,
    .update = update,
    .zero_grad = zero_grad,
    .gradient_places = gradient_places,
    .end_step = end_step,
};
