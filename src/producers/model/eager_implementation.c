/* The eager model as an implementation of the training run's table. The tensors of a step are released in the order of
 * the reference program's names. */
#include "base/memory.h"
#include "producers/model/autocast.h"
#include "producers/model/graph.h"
#include "producers/model/implementation.h"
#include "producers/model/loss_scaler.h"
#include "producers/model/optimizer.h"
#include "producers/model/transformer.h"

#include <assert.h>
#include <stdlib.h>

struct eager {
    const struct mt_training_config *config; /* borrowed */
    struct mt_transformer model;
    struct mt_loss_scaler scaler;              /* of fp16 */
    struct mt_tensor *logits, *loss;           /* of the step, held */
    struct mt_tensor *last_logits, *last_loss; /* of the step before, kept until new ones exist if outputs are kept */
};

/* Sets PyTorch's time to launch a kernel. Under autocast, operators first determine their dtype and launch conversions,
 * which takes half as much again, in forward and backward (docs/cards.md). */
static void set_launch(struct mt_runtime *rt, bool autocast)
{
    const uint64_t launch_ns = rt->device->card.eager_launch_ns;
    rt->launch_ns = autocast ? launch_ns * 3 / 2 : launch_ns;
}

static void *create(struct mt_runtime *rt, const struct mt_training_config *config)
{
    struct eager *eager = mt_host_alloc(sizeof *eager);
    *eager = (struct eager){.config = config};
    mt_transformer_create(rt, config, &eager->model);
    return eager;
}

static void destroy(struct mt_runtime *rt, void *model)
{
    struct eager *eager = model;
    assert(eager->logits == NULL && eager->loss == NULL); /* the last step has ended */
    MT_RELEASE(rt, eager->last_logits, eager->last_loss);
    mt_loss_scaler_release(rt, &eager->scaler);
    mt_transformer_destroy(rt, &eager->model);
    free(eager);
}

static void forward(struct mt_runtime *rt, void *model, struct mt_tensor *inputs, struct mt_tensor *targets)
{
    struct eager *eager = model;
    assert(eager->logits == NULL && eager->loss == NULL); /* the last step has ended */
    set_launch(rt, eager->config->autocast != MT_AUTOCAST_OFF);
    if (eager->config->autocast != MT_AUTOCAST_OFF)
        mt_autocast_begin(rt, eager->config->autocast == MT_AUTOCAST_FP16 ? MT_F16 : MT_BF16);
    eager->logits = mt_transformer_forward(rt, &eager->model, inputs);
    mt_tensor_drop(rt, &eager->last_logits);
    if (targets != NULL) {
        mt_runtime_phase(rt, MT_PHASE_LOSS);
        eager->loss = mt_cross_entropy(rt, eager->logits, targets);
        mt_tensor_drop(rt, &eager->last_loss);
    }
    if (targets == NULL || eager->config->autocast_end == MT_REGION_END_BEFORE_BACKWARD)
        mt_autocast_end(rt);
}

static const struct mt_tensor *loss(const void *model)
{
    return ((const struct eager *)model)->loss;
}

static bool scales_loss(const struct eager *eager)
{
    return eager->config->autocast == MT_AUTOCAST_FP16;
}

static void backward(struct mt_runtime *rt, void *model, int64_t step, struct mt_gradient_watch watch)
{
    (void)step;
    struct eager *eager = model;
    if (scales_loss(eager)) {
        struct mt_tensor *scaled = mt_loss_scaler_scale(rt, &eager->scaler, eager->loss);
        mt_graph_backward(rt, scaled);
        mt_tensor_release(rt, scaled);
    } else {
        mt_graph_backward(rt, eager->loss);
    }
    mt_autocast_end(rt);
    for (int64_t i = 0; watch.visit != NULL && i < eager->model.parameter_count; i++)
        if (eager->model.parameters[i].grad != NULL)
            watch.visit(watch.context, eager->model.parameters[i].name, eager->model.parameters[i].grad);
}

static void update(struct mt_runtime *rt, void *model, int64_t step)
{
    struct eager *eager = model;
    set_launch(rt, false);
    if (scales_loss(eager))
        mt_loss_scaler_unscale(rt, &eager->scaler, eager->model.parameters, eager->model.parameter_count);
    mt_optimizer_step(rt, &eager->model, step);
    if (scales_loss(eager))
        mt_loss_scaler_update(rt, &eager->scaler);
}

static void zero_grad(struct mt_runtime *rt, void *model)
{
    mt_optimizer_zero_grad(rt, &((struct eager *)model)->model);
}

static uint64_t gradient_places(const void *model)
{
    const struct mt_transformer *transformer = &((const struct eager *)model)->model;
    uint64_t sum = 0;
    for (int64_t i = 0; i < transformer->parameter_count; i++)
        sum = mt_parameter_fold_place(sum, &transformer->parameters[i]);
    return sum;
}

static void end_step(struct mt_runtime *rt, void *model)
{
    struct eager *eager = model;
    assert(eager->last_logits == NULL && eager->last_loss == NULL); /* the step has replaced them */
    if (eager->config->keep_output) {
        eager->last_logits = eager->logits;
        eager->last_loss = eager->loss;
    } else {
        MT_RELEASE(rt, eager->logits, eager->loss);
    }
    eager->logits = eager->loss = NULL;
}

const struct mt_implementation mt_eager_implementation = {
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
