/* Loss of the fused model, from all logits or from a slice of them at a time.
 *
 * A slice is some of the tokens. Its logits overwrite the previous slice's. The loss turns them into their gradient,
 * which only the head needs: so the head's backward runs here. The input of the head becomes its own gradient:
 *
 *   head_input (B·T,C)   | gradient | slice ─▶ logits ─▶ their gradient ─▶ gradient | input | input |
 *                                     (n,C)    (n,V)      ╰─▶ added to the weight's gradient (V,C)
 *
 * Sliced and whole logits give the same loss if the device's products give a row the same bits with fewer other rows.
 * The gradient of the head's weight is summed in a different order. */
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"

#include <assert.h>

/* `count` tokens from number `first` on. */
struct slice {
    int64_t first, count;
};

/* Returns the rows of a slice, as (1,n,columns); `of` is contiguous rows. A new reference. */
static struct mt_tensor *slice_rows(struct mt_runtime *rt, struct slice slice, struct mt_tensor *of)
{
    if (of == NULL)
        return NULL;
    int64_t columns = of->shape[of->dims - 1];
    assert(mt_tensor_is_contiguous(of) && (slice.first + slice.count) * columns <= mt_tensor_count(of));
    return mt_tensor_view(rt, of, 3, (const int64_t[]){1, slice.count, columns},
                          (const int64_t[]){slice.count * columns, columns, 1}, slice.first * columns);
}

/* Returns the elements of a slice, as (1,n); `of` is contiguous, with one element a token. A new reference. */
static struct mt_tensor *slice_elements(struct mt_runtime *rt, struct slice slice, struct mt_tensor *of)
{
    if (of == NULL)
        return NULL;
    assert(mt_tensor_is_contiguous(of) && slice.first + slice.count <= mt_tensor_count(of));
    return mt_tensor_view(rt, of, 2, (const int64_t[]){1, slice.count}, (const int64_t[]){slice.count, 1}, slice.first);
}

/* Enters the span of the head. The caller leaves both scopes, the inner one first. */
static struct mt_scope enter_head(struct mt_runtime *rt, struct mt_scope *outermost)
{
    *outermost = mt_scope_enter(rt, "model", MT_CATEGORY_BLOCK, "model");
    return mt_scope_enter(rt, "lm_head", MT_CATEGORY_EINSUM, "einsum");
}

static void leave_head(struct mt_runtime *rt, struct mt_scope outer, struct mt_scope outermost)
{
    mt_scope_leave(rt, outer);
    mt_scope_leave(rt, outermost);
}

static struct mt_scope enter_loss(struct mt_runtime *rt)
{
    return mt_scope_enter(rt, "loss", MT_CATEGORY_LOSS, "cross_entropy");
}

/* Allocates the losses of all tokens. */
static struct mt_tensor *take_losses(struct mt_runtime *rt, const struct mt_fused_model *model,
                                     const struct mt_tensor *targets)
{
    return mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "each", model->config->parameter_dtype, targets->dims,
                           targets->shape);
}

/* Computes the mean of the losses, and releases them. */
static void take_mean(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_tensor *losses)
{
    model->loss = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "mean", model->config->parameter_dtype, 0, NULL);
    mt_op_reduce(rt, MTK_MEAN, model->loss, losses);
    mt_tensor_release(rt, losses);
}

static void whole_loss(struct mt_runtime *rt, struct mt_fused_model *model, const struct mt_tensor *targets)
{
    struct mt_scope outer = enter_loss(rt);
    struct mt_tensor *losses = take_losses(rt, model, targets);
    mt_op_cross_entropy(rt, 1 / (double)mt_tensor_count(targets), model->logits, losses, targets);
    take_mean(rt, model, losses);
    mt_scope_leave(rt, outer);
}

/* The tensors of a sliced loss, held. */
struct sliced_loss {
    struct mt_tensor *weight;           /* of the head, as products read it */
    struct mt_tensor *logits;           /* (1,n,V) of the largest slice */
    struct mt_tensor *losses, *targets; /* (B,T), contiguous */
};

/* Returns the targets without gaps: with text, each sequence has one more token in memory. A new reference. */
static struct mt_tensor *dense_targets(struct mt_runtime *rt, struct mt_tensor *targets)
{
    if (mt_tensor_is_contiguous(targets))
        return mt_tensor_retain(targets);
    struct mt_tensor *dense =
        mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "targets", targets->dtype, targets->dims, targets->shape);
    mt_op_unary(rt, MTK_COPY, 0, dense, targets);
    return dense;
}

/* Computes the losses of a slice, and the gradients of the head from them. */
static void take_slice(struct mt_runtime *rt, struct mt_fused_model *model, const struct sliced_loss *sliced,
                       struct slice slice)
{
    double scale = 1 / (double)(model->config->batch * model->config->seq);
    struct mt_scope outermost, outer = enter_head(rt, &outermost);
    struct mt_tensor *input = slice_rows(rt, slice, model->head_input);
    struct mt_tensor *logits = slice_rows(rt, (struct slice){0, slice.count}, sliced->logits);
    struct mt_tensor *losses = slice_elements(rt, slice, sliced->losses),
                     *targets = slice_elements(rt, slice, sliced->targets);
    mt_fused_linear_into(rt, logits, input, sliced->weight);
    leave_head(rt, outer, outermost);
    outer = enter_loss(rt);
    mt_op_cross_entropy(rt, scale, logits, losses, targets);
    mt_scope_leave(rt, outer);
    outer = enter_head(rt, &outermost);
    mt_fused_weight_grad_add(rt, logits, input, model->lm_head);
    mt_fused_input_grad_into(rt, input, logits, sliced->weight); /* the input is no longer needed */
    MT_RELEASE(rt, targets, losses, logits, input);
    leave_head(rt, outer, outermost);
}

static void begin_slices(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_tensor *targets, int64_t rows,
                         struct sliced_loss *out)
{
    struct mt_scope outer = enter_loss(rt), outermost;
    out->losses = take_losses(rt, model, targets);
    out->targets = dense_targets(rt, targets);
    mt_scope_leave(rt, outer);
    outer = enter_head(rt, &outermost);
    out->weight = mt_fused_operand(rt, model, model->lm_head);
    out->logits = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "slice", model->compute, 3,
                                  (const int64_t[]){1, rows, model->config->model.vocab});
    leave_head(rt, outer, outermost);
}

static void end_slices(struct mt_runtime *rt, struct mt_fused_model *model, const struct sliced_loss *sliced)
{
    struct mt_scope outer = enter_loss(rt);
    MT_RELEASE(rt, sliced->logits, sliced->weight, sliced->targets);
    mt_fused_operand_done(rt, model, model->lm_head);
    take_mean(rt, model, sliced->losses);
    mt_scope_leave(rt, outer);
}

static void sliced_loss(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_tensor *targets)
{
    struct sliced_loss sliced = {0};
    int64_t tokens = mt_tensor_count(targets), slices = model->config->loss_slices;
    int64_t rows = (tokens + slices - 1) / slices;
    if (model->config->zero_grad == MT_ZERO_GRAD_BEFORE_BACKWARD)
        mt_fused_zero_grad(rt, model);
    model->has_head_grad = true;
    begin_slices(rt, model, targets, rows, &sliced);
    for (int64_t first = 0; first < tokens; first += rows) {
        struct slice slice = {first, first + rows < tokens ? rows : tokens - first};
        take_slice(rt, model, &sliced, slice);
    }
    end_slices(rt, model, &sliced);
}

void mt_fused_loss(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_tensor *targets)
{
    if (rt->status != MT_OK)
        return;
    if (mt_fused_slices_loss(model))
        sliced_loss(rt, model, targets);
    else
        whole_loss(rt, model, targets);
}
