/* Backward of the fused model, latest first. The gradient of the residual stream is one tensor, to which each norm
 * adds. Under autocast the norm also writes it in bf16, to a second tensor that the products read. Outputs that forward
 * did not keep are recomputed in the memory of gradients that are no longer needed:
 *
 *   gate   the gates become their gradient, and the gradient of the gate's output becomes that output again
 *   norm   the gradient of its output becomes that output again
 *
 * Each weight is read in one place. So its gradient is complete as soon as it has been computed, and nothing reads the
 * weight after that: it may be updated at once, or in parallel with the rest of backward. */
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"

#include <assert.h>

/* The gradient of the residual stream. Invariant: both tensors have the shape of the stream. */
struct residual_grad {
    struct mt_tensor *grad; /* held; NULL: no norm has added to it yet */
    struct mt_tensor *cast; /* the same in bf16, held; NULL without autocast */
};

/* Returns the tensor that products read, borrowed. */
static struct mt_tensor *operand(const struct residual_grad *residual)
{
    return residual->cast != NULL ? residual->cast : residual->grad;
}

/* Allocates the stream's gradient, if this is the first norm to add to it. */
static void begin_residual(struct mt_runtime *rt, const struct mt_fused_model *model, const struct mt_tensor *like,
                           struct residual_grad *residual)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_BLOCK, "residual");
    residual->grad = mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, "grad", like->dtype, like);
    if (model->config->autocast)
        residual->cast = mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, "cast", MT_BF16, like);
    rt->scope = outer;
}

/* Adds the gradient through a norm to the stream's gradient. `grad`, the gradient of the norm's output, becomes that
 * output again. Releases the tensors that the norm kept. */
static void normalize_grad(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                           struct mt_fused_weight *weight, struct mt_fused_norm *kept, struct mt_tensor *grad,
                           struct residual_grad *residual)
{
    if (grad == NULL || rt->status != MT_OK)
        return;
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_NORM, "norm");
    struct mt_tensor *before = residual->grad;
    if (before == NULL)
        begin_residual(rt, model, kept->x, residual);
    assert(rt->status != MT_OK || mt_tensor_same_shape(residual->grad, kept->x));
    struct mt_norm_grad_tensors norm = {.dx = residual->grad,
                                        .before = before,
                                        .cast = residual->cast,
                                        .grad = grad,
                                        .x = kept->x,
                                        .rstd = kept->rstd,
                                        .weight = weight->parameter.value};
    norm.dweight = mt_fused_gradient(rt, weight, &norm.beta);
    norm.partial_sum = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "weight_sums", kept->x->dtype, 2,
                                       (const int64_t[]){MTK_NORM_PARTS, model->config->model.d_model});
    mt_op_rms_norm_grad(rt, &norm);
    mt_tensor_release(rt, norm.partial_sum);
    mt_tensor_drop(rt, &kept->x);
    mt_tensor_drop(rt, &kept->rstd);
    mt_fused_gradient_complete(rt, model, weight);
    mt_scope_leave(rt, outer);
}

/* Completes the head's backward, which a sliced loss has begun. */
static void sliced_head_grad(struct mt_runtime *rt, struct mt_fused_model *model, struct residual_grad *residual)
{
    normalize_grad(rt, model, "ln_final", model->ln_final, &model->norm_final, model->head_input, residual);
    mt_tensor_drop(rt, &model->head_input);
    struct mt_scope outer = mt_scope_enter(rt, "lm_head", MT_CATEGORY_EINSUM, "einsum");
    mt_fused_gradient_complete(rt, model, model->lm_head);
    mt_scope_leave(rt, outer);
}

static void whole_head_grad(struct mt_runtime *rt, struct mt_fused_model *model, struct residual_grad *residual)
{
    struct mt_tensor *normed = mt_fused_input_grad(rt, model, "lm_head", model->logits, model->lm_head);
    normalize_grad(rt, model, "ln_final", model->ln_final, &model->norm_final, normed, residual);
    mt_fused_weight_grad(rt, model, "lm_head", model->logits, normed, model->lm_head);
    mt_tensor_release(rt, normed);
    mt_tensor_drop(rt, &model->logits);
}

static void head_grad(struct mt_runtime *rt, struct mt_fused_model *model, struct residual_grad *residual)
{
    model->has_head_grad = false;
    if (mt_fused_slices_loss(model))
        sliced_head_grad(rt, model, residual);
    else
        whole_head_grad(rt, model, residual);
    mt_fused_block_complete(rt, model, 2, (struct mt_fused_weight *[]){model->ln_final, model->lm_head});
}

static void feed_forward_grad(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                              struct residual_grad *residual)
{
    struct mt_scope outer = mt_scope_enter(rt, "ffn", MT_CATEGORY_FFN, "swiglu");
    struct mt_tensor *gated = mt_fused_gate_grad(rt, model, layer, operand(residual));
    mt_fused_weight_grad(rt, model, "w2", operand(residual), gated, layer->down);
    mt_tensor_release(rt, gated);
    struct mt_tensor *normed = mt_fused_input_grad(rt, model, "w13", layer->gates, layer->gate_up);
    mt_scope_leave(rt, outer);
    normalize_grad(rt, model, "ln2", layer->ln2, &layer->norm2, normed, residual);
    outer = mt_scope_enter(rt, "ffn", MT_CATEGORY_FFN, "swiglu");
    mt_fused_weight_grad(rt, model, "w13", layer->gates, normed, layer->gate_up);
    mt_tensor_release(rt, normed);
    mt_tensor_drop(rt, &layer->gates);
    mt_scope_leave(rt, outer);
}

static void attend_grad(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                        struct residual_grad *residual)
{
    struct mt_scope outer = mt_scope_enter(rt, "attn", MT_CATEGORY_ATTN, "attn");
    struct mt_tensor *context = mt_fused_input_grad(rt, model, "output_proj", operand(residual), layer->output_proj);
    mt_fused_weight_grad(rt, model, "output_proj", operand(residual), layer->context, layer->output_proj);
    struct mt_tensor *projected = mt_fused_attention_grad(rt, model, layer, context);
    mt_tensor_release(rt, context);
    mt_tensor_drop(rt, &layer->context);
    struct mt_tensor *normed = mt_fused_input_grad(rt, model, "qkv_proj", projected, layer->qkv);
    mt_scope_leave(rt, outer);
    normalize_grad(rt, model, "ln1", layer->ln1, &layer->norm1, normed, residual);
    outer = mt_scope_enter(rt, "attn", MT_CATEGORY_ATTN, "attn");
    mt_fused_weight_grad(rt, model, "qkv_proj", projected, normed, layer->qkv);
    MT_RELEASE(rt, normed, projected);
    mt_scope_leave(rt, outer);
}

/* Adds the rows of the stream's gradient to the rows of the embedding's gradient that forward read. */
static void embed_grad(struct mt_runtime *rt, struct mt_fused_model *model, const struct mt_tensor *grad)
{
    double beta;
    if (rt->status != MT_OK)
        return;
    struct mt_scope outer = mt_scope_enter(rt, "token_embeddings", MT_CATEGORY_EMBED, "embedding");
    struct mt_tensor *table = mt_fused_gradient(rt, model->token_embeddings, &beta);
    if (beta == 0)
        mt_op_fill(rt, table, 0);
    mt_op_scatter_add_rows(rt, table, model->inputs, grad);
    mt_fused_gradient_complete(rt, model, model->token_embeddings);
    mt_scope_leave(rt, outer);
    mt_fused_block_complete(rt, model, 1, &model->token_embeddings);
}

static void layer_grad(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                       struct residual_grad *residual)
{
    if (model->config->checkpoint == MT_CHECKPOINT_BLOCK)
        mt_fused_recompute_layer(rt, model, layer);
    feed_forward_grad(rt, model, layer, residual);
    attend_grad(rt, model, layer, residual);
    mt_fused_block_complete(rt, model, MT_FUSED_WEIGHTS_PER_LAYER,
                            (struct mt_fused_weight *[]){layer->down, layer->gate_up, layer->ln2, layer->output_proj,
                                                         layer->qkv, layer->ln1});
}

void mt_fused_backward(struct mt_runtime *rt, void *fused, int64_t step, struct mt_gradient_watch watch)
{
    struct mt_fused_model *model = fused;
    struct residual_grad residual = {0};
    assert(model->loss != NULL || rt->status != MT_OK);
    mt_fused_update_begin(model, step);
    model->watch = watch;
    struct mt_scope outermost = mt_scope_enter(rt, "model", MT_CATEGORY_BLOCK, "model");
    head_grad(rt, model, &residual);
    struct mt_scope model_scope = mt_scope_enter(rt, "layers", MT_CATEGORY_BLOCK, "residual");
    for (int64_t i = model->config->model.layers - 1; i >= 0; i--) {
        struct mt_scope layers_scope = mt_fused_enter_layer(rt, i);
        layer_grad(rt, model, &model->layers[i], &residual);
        mt_scope_leave(rt, layers_scope);
    }
    mt_scope_leave(rt, model_scope);
    mt_tensor_release(rt, residual.cast);
    embed_grad(rt, model, residual.grad);
    mt_tensor_release(rt, residual.grad);
    mt_scope_leave(rt, outermost);
}

static void drop_norm(struct mt_runtime *rt, struct mt_fused_norm *norm)
{
    mt_tensor_drop(rt, &norm->x);
    mt_tensor_drop(rt, &norm->rstd);
}

static void drop_layer(struct mt_runtime *rt, struct mt_fused_layer *layer)
{
    drop_norm(rt, &layer->norm1);
    mt_tensor_drop(rt, &layer->projected);
    mt_tensor_drop(rt, &layer->weights);
    mt_tensor_drop(rt, &layer->lse);
    mt_tensor_drop(rt, &layer->context);
    drop_norm(rt, &layer->norm2);
    mt_tensor_drop(rt, &layer->gates);
}

void mt_fused_end_step(struct mt_runtime *rt, void *fused)
{
    struct mt_fused_model *model = fused;
    mt_tensor_drop(rt, &model->inputs);
    for (int64_t i = 0; i < model->config->model.layers; i++)
        drop_layer(rt, &model->layers[i]);
    drop_norm(rt, &model->norm_final);
    mt_tensor_drop(rt, &model->logits);
    mt_tensor_drop(rt, &model->head_input);
    model->has_head_grad = false;
    mt_tensor_drop(rt, &model->loss);
    mt_fused_codes_drop(rt, &model->grad_codes);
    for (int64_t i = 0; i < model->weight_count; i++) {
        mt_fused_codes_drop(rt, &model->weights[i].codes);
        mt_tensor_drop(rt, &model->weights[i].input_scale);
    }
    for (int64_t i = 0; i < model->weight_count; i++)
        if (model->config->weight_cast != MT_WEIGHT_CAST_PERSISTENT)
            mt_tensor_drop(rt, &model->weights[i].cast);
}
