/* Forward of the fused model, and the recomputation of a block whose tensors were not kept. A block keeps
 * its tensors if the runtime's gradients are enabled. A block that keeps only its input disables them while it
 * runs. Its recomputation, which gives the same bits, runs with gradients enabled. */
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"

#include <assert.h>

/* The residual stream between two norms. */
struct stream {
    struct mt_tensor *sum;    /* of all addends so far, held */
    struct mt_tensor *addend; /* for the next norm to add, held; NULL: none */
};

/* Returns the tensor for the sum that the norm normalizes: the old sum if nothing else holds it, otherwise a new
 * tensor. A new reference. */
static struct mt_tensor *next_sum(struct mt_runtime *rt, const struct stream *stream)
{
    if (stream->addend == NULL || mt_tensor_is_exclusive(stream->sum))
        return mt_tensor_retain(stream->sum);
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_BLOCK, "residual");
    struct mt_tensor *sum = mt_tensor_empty_like(rt, MT_ROLE_ACTIVATION, NULL, stream->sum->dtype, stream->sum);
    rt->scope = outer;
    return sum;
}

/* Adds the addend to the stream and returns the norm of the sum. Keeps the tensors that backward needs. Afterwards,
 * even after a failure, there is no addend. */
static struct mt_tensor *normalize(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                                   struct mt_fused_weight *weight, struct mt_fused_norm *kept, struct stream *stream)
{
    if (stream->sum == NULL || rt->status != MT_OK) {
        mt_tensor_drop(rt, &stream->addend);
        return NULL;
    }
    assert(!rt->grad_enabled || (kept->x == NULL && kept->rstd == NULL));
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_NORM, "norm");
    struct mt_tensor *x = stream->sum, *sum = next_sum(rt, stream);
    const int64_t column[] = {x->shape[0], x->shape[1], 1};
    if (rt->grad_enabled)
        kept->rstd = mt_tensor_empty(rt, MT_ROLE_ACTIVATION, "rstd", x->dtype, 3, column);
    struct mt_tensor *out = mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, NULL, model->compute, x);
    const struct mt_norm_tensors norm = {.epsilon = MT_NORM_EPSILON,
                                         .out = out,
                                         .rstd = kept->rstd,
                                         .sum = sum,
                                         .x = x,
                                         .y = stream->addend,
                                         .weight = weight->parameter.value};
    mt_op_rms_norm(rt, &norm);
    mt_tensor_drop(rt, &stream->addend);
    mt_tensor_release(rt, x);
    stream->sum = sum;
    if (rt->grad_enabled)
        kept->x = mt_tensor_retain(sum);
    mt_scope_leave(rt, outer);
    return out;
}

/* Computes the attention of a block, which becomes the stream's addend. Takes `normed`. */
static void attend(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                   struct mt_tensor *normed, struct stream *stream)
{
    struct mt_scope outer = mt_scope_enter(rt, "attn", MT_CATEGORY_ATTN, "attn");
    layer->projected =
        mt_fused_linear(rt, model, "qkv_proj", mt_effective_role(rt, MT_ROLE_ACTIVATION), normed, layer->qkv);
    mt_tensor_release(rt, normed);
    layer->context = mt_fused_attention(rt, model, layer);
    if (!rt->grad_enabled)
        mt_tensor_drop(rt, &layer->projected);
    stream->addend = mt_fused_linear(rt, model, "output_proj", MT_ROLE_TEMPORARY, layer->context, layer->output_proj);
    if (!rt->grad_enabled)
        mt_tensor_drop(rt, &layer->context);
    mt_scope_leave(rt, outer);
}

/* Computes the operands of the gate from the stream and, unless `gated` is NULL, the gate's output. Enters the span of
 * the feed-forward net and returns the scope to leave to. */
static struct mt_scope enter_feed_forward(struct mt_runtime *rt, struct mt_fused_model *model,
                                          struct mt_fused_layer *layer, struct stream *stream, struct mt_tensor **gated)
{
    struct mt_tensor *normed = normalize(rt, model, "ln2", layer->ln2, &layer->norm2, stream);
    struct mt_scope outer = mt_scope_enter(rt, "ffn", MT_CATEGORY_FFN, "swiglu");
    mt_fused_gate(rt, model, layer, normed, gated);
    return outer;
}

/* Computes the feed-forward net of a block, which becomes the stream's addend. */
static void feed_forward(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                         struct stream *stream)
{
    struct mt_tensor *gated = NULL;
    struct mt_scope outer = enter_feed_forward(rt, model, layer, stream, &gated);
    if (!rt->grad_enabled)
        mt_tensor_drop(rt, &layer->gates);
    stream->addend = mt_fused_linear(rt, model, "w2", MT_ROLE_TEMPORARY, gated, layer->down);
    mt_tensor_release(rt, gated);
    mt_scope_leave(rt, outer);
}

/* Runs a block. Keeps all tensors that its backward needs, or only its input. */
static void run_block(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                      struct stream *stream)
{
    bool learns = rt->grad_enabled;
    rt->grad_enabled = learns && model->config->checkpoint == MT_CHECKPOINT_OFF;
    struct mt_tensor *normed = normalize(rt, model, "ln1", layer->ln1, &layer->norm1, stream);
    if (learns && !rt->grad_enabled)
        layer->norm1.x = mt_tensor_retain(stream->sum);
    attend(rt, model, layer, normed, stream);
    feed_forward(rt, model, layer, stream);
    rt->grad_enabled = learns;
}

void mt_fused_recompute_layer(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer)
{
    assert(rt->grad_enabled && layer->norm1.rstd == NULL); /* only the input was kept */
    struct stream stream = {.sum = layer->norm1.x};
    layer->norm1.x = NULL;
    struct mt_tensor *normed = normalize(rt, model, "ln1", layer->ln1, &layer->norm1, &stream);
    attend(rt, model, layer, normed, &stream);
    mt_scope_leave(rt, enter_feed_forward(rt, model, layer, &stream, NULL));
    MT_RELEASE(rt, stream.sum, stream.addend);
}

static struct mt_tensor *embed(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_tensor *inputs)
{
    if (inputs == NULL)
        return NULL;
    const struct mt_tensor *table = model->token_embeddings->parameter.value;
    struct mt_scope outer = mt_scope_enter(rt, "token_embeddings", MT_CATEGORY_EMBED, "embedding");
    const int64_t shape[] = {inputs->shape[0], inputs->shape[1], model->config->model.d_model};
    struct mt_tensor *x =
        mt_tensor_empty(rt, mt_effective_role(rt, MT_ROLE_ACTIVATION), NULL, model->config->parameter_dtype, 3, shape);
    mt_op_gather_rows(rt, x, table, inputs);
    mt_scope_leave(rt, outer);
    return x;
}

void mt_fused_forward(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_tensor *inputs)
{
    assert(model->inputs == NULL && model->logits == NULL && model->head_input == NULL); /* the last step has ended */
    struct mt_scope outermost = mt_scope_enter(rt, "model", MT_CATEGORY_BLOCK, "model");
    model->inputs = mt_tensor_retain(inputs);
    struct stream stream = {.sum = embed(rt, model, inputs)};
    struct mt_scope model_scope = mt_scope_enter(rt, "layers", MT_CATEGORY_BLOCK, "residual");
    for (int64_t i = 0; i < model->config->model.layers; i++) {
        struct mt_scope layers_scope = mt_fused_enter_layer(rt, i);
        run_block(rt, model, &model->layers[i], &stream);
        mt_scope_leave(rt, layers_scope);
    }
    mt_scope_leave(rt, model_scope);
    struct mt_tensor *normed = normalize(rt, model, "ln_final", model->ln_final, &model->norm_final, &stream);
    MT_RELEASE(rt, stream.sum, stream.addend);
    if (mt_fused_slices_loss(model))
        model->head_input = mt_tensor_retain(normed);
    else
        model->logits =
            mt_fused_linear(rt, model, "lm_head", mt_effective_role(rt, MT_ROLE_ACTIVATION), normed, model->lm_head);
    mt_tensor_release(rt, normed);
    mt_scope_leave(rt, outermost);
}
