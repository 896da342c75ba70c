/* AdamW of the fused model: one op over all parameters after backward, or one op for a parameter as soon as its
 * gradient is complete, or one op for a block on a separate stream:
 *
 *   backward   ── block 7 ──┬── block 6 ──┬── block 5 ── ··· ─┬── (wait) ── next step
 *   updates                 ╰─ update 7 ──┴── update 6 ── ··· ┴─ update of the embedding
 *
 * AdamW also writes the bf16 copies of weights that are kept between steps. */
#include "base/memory.h"
#include "base/random.h"
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"
#include "producers/model/optimizer.h"

#include <assert.h>
#include <stdlib.h>

/* Returns the span of a parameter's moments. It does not depend on the time of the update, since they outlive it. */
static mt_span_id moments_span(struct mt_runtime *rt, const struct mt_parameter *parameter)
{
    return mt_alloc_intern_span(rt->alloc, mt_alloc_intern_span(rt->alloc, 0, "optimizer"), parameter->name);
}

/* Returns the form of a weight's moments. Norms and the embedding keep full moments where other weights have 8 bits:
 * most rows of an embedding have no gradient in a step, and share their scale with a row that has one (Dettmers et al.,
 * 2022). */
static mtk_moments form_of(const struct mt_fused_model *model, const struct mt_fused_weight *weight)
{
    mtk_moments form = model->config->moments;
    return form == MTK_MOMENTS_8BIT && !weight->is_multiplied ? MTK_MOMENTS_FULL : form;
}

/* Allocates the moments of a weight at its first step. */
static void begin_moments(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_weight *weight)
{
    struct mt_scope outer = rt->scope;
    rt->scope.span = moments_span(rt, &weight->parameter);
    rt->scope.layer = weight->parameter.layer;
    mt_parameter_moments(rt, form_of(model, weight), &weight->parameter);
    rt->scope = outer;
}

void mt_fused_update_begin(struct mt_fused_model *model, int64_t step)
{
    model->adamw = mt_adamw_of_step(step);
    model->update = step;
    model->adamw.dtype = model->config->parameter_dtype;
}

/* Returns the tensors of a parameter for the op. Its moments must exist. Their rounding depends neither on the time of
 * the update within a step nor on the other parameters in the op. */
static struct mt_adamw_tensors tensors_of(const struct mt_fused_model *model, const struct mt_fused_weight *weight)
{
    const struct mt_parameter *p = &weight->parameter;
    uint64_t number = (uint64_t)(weight - model->weights);
    return (struct mt_adamw_tensors){.value = p->value,
                                     .mean = p->moments[0],
                                     .square = p->moments[1],
                                     .scales = p->scales,
                                     .cast = weight->cast,
                                     .grad = p->grad,
                                     .generator = mt_splitmix64((uint64_t)model->update << 32 | number)};
}

/* Updates one parameter and releases its gradient. */
static void update_one(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_weight *weight)
{
    struct mt_scope outer = mt_scope_enter(rt, "optimizer", MT_CATEGORY_OPTIMIZER, "adamw");
    begin_moments(rt, model, weight);
    const struct mt_adamw_tensors tensors = tensors_of(model, weight);
    if (rt->status == MT_OK)
        mt_op_adamw(rt, &model->adamw, 1, &tensors);
    mt_tensor_drop(rt, &weight->parameter.grad);
    mt_scope_leave(rt, outer);
}

/* Reports the weight's gradient to the model's watch, part by part. */
static void report_gradient(struct mt_runtime *rt, const struct mt_fused_model *model,
                            const struct mt_fused_weight *weight)
{
    for (int64_t i = 0; model->watch.visit != NULL && i < weight->part_count; i++) {
        const struct mt_fused_part *part = &model->parts[weight->first_part + i];
        struct mt_tensor *grad = mt_fused_part_view(rt, part, weight->parameter.grad);
        if (grad != NULL)
            model->watch.visit(model->watch.context, part->name, grad);
        mt_tensor_release(rt, grad);
    }
}

void mt_fused_gradient_complete(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_weight *weight)
{
    if (rt->status != MT_OK)
        return;
    report_gradient(rt, model, weight);
    if (model->config->optimizer_in_backward == MT_OPTIMIZER_IN_BACKWARD_ON)
        update_one(rt, model, weight);
}

/* The stream for updates during backward. The allocator need not know it: the blocks it uses are held
 * until the step's update, and by then the model's stream waits for it. */
static const mt_stream UPDATE_STREAM = 1;

/* Queues the update of a few parameters on the other stream, after all work queued so far. Their moments
 * must exist. */
static void update_beside(struct mt_runtime *rt, struct mt_fused_model *model, int count,
                          const struct mt_adamw_tensors *parameters)
{
    mt_stream backward_stream = rt->stream;
    assert(backward_stream != UPDATE_STREAM);
    mt_runtime_fail(rt, mt_device_follow(rt->device, UPDATE_STREAM, backward_stream));
    rt->stream = UPDATE_STREAM;
    model->has_updates_beside = true;
    mt_op_adamw(rt, &model->adamw, count, parameters);
    rt->stream = backward_stream;
}

void mt_fused_block_complete(struct mt_runtime *rt, struct mt_fused_model *model, int count,
                             struct mt_fused_weight *const *weights)
{
    struct mt_adamw_tensors parameters[MT_FUSED_WEIGHTS_PER_LAYER];
    assert(count > 0 && count <= MT_FUSED_WEIGHTS_PER_LAYER);
    if (rt->status != MT_OK || model->config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_BESIDE)
        return;
    struct mt_scope outer = mt_scope_enter(rt, "optimizer", MT_CATEGORY_OPTIMIZER, "adamw");
    for (int i = 0; i < count; i++) {
        begin_moments(rt, model, weights[i]);
        parameters[i] = tensors_of(model, weights[i]);
    }
    if (rt->status == MT_OK)
        update_beside(rt, model, count, parameters);
    mt_scope_leave(rt, outer);
}

/* Updates all parameters that have a gradient, as one op. */
static void update_all(struct mt_runtime *rt, struct mt_fused_model *model, int64_t step)
{
    struct mt_adamw_tensors *parameters = mt_host_alloc((size_t)model->weight_count * sizeof *parameters);
    int count = 0;
    struct mt_scope outer = mt_scope_enter(rt, "optimizer", MT_CATEGORY_OPTIMIZER, "adamw");
    mt_fused_update_begin(model, step);
    for (int64_t i = 0; i < model->weight_count && rt->status == MT_OK; i++) {
        struct mt_fused_weight *weight = &model->weights[i];
        if (weight->parameter.grad == NULL)
            continue;
        begin_moments(rt, model, weight);
        parameters[count++] = tensors_of(model, weight);
    }
    if (rt->status == MT_OK && count > 0)
        mt_op_adamw(rt, &model->adamw, count, parameters);
    mt_scope_leave(rt, outer);
    free(parameters);
}

/* Makes the model's stream wait for the updates on the other stream. */
static mt_status wait_for_updates(void *context)
{
    const struct mt_runtime *rt = context;
    return mt_device_follow(rt->device, rt->stream, UPDATE_STREAM);
}

void mt_fused_update(struct mt_runtime *rt, void *fused, int64_t step)
{
    struct mt_fused_model *model = fused;
    if (model->config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_BESIDE)
        update_all(rt, model, step);
    if (model->has_updates_beside)
        mt_runtime_settle(rt, wait_for_updates, rt);
    model->has_updates_beside = false;
}

void mt_fused_zero_grad(struct mt_runtime *rt, void *fused)
{
    struct mt_fused_model *model = fused;
    if (model->has_head_grad) /* the gradients belong to the step */
        return;
    for (int64_t i = 0; i < model->weight_count; i++)
        mt_tensor_drop(rt, &model->weights[i].parameter.grad);
}
