/* Attention of the fused model, on views of the projections, which one product computed:
 *
 *   projected (B,T,3C)   | Q: H x D | K: H x D | V: H x D |    each viewed as (B,H,T,D), without a copy
 *
 * `weights` computes scores and softmax in place, and keeps only that tensor of size T²; `flash` keeps none. */
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"

#include <assert.h>
#include <math.h>

/* Returns `heads` heads of a (B,T,…) tensor from its column `column` on, as a view (B,heads,T,D). */
static struct mt_tensor *heads_view(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_tensor *of,
                                    int64_t heads, int64_t column)
{
    if (of == NULL)
        return NULL;
    assert(of->dims == 3);
    int64_t T = of->shape[1], width = of->shape[2], D = model->config->model.d_model / model->config->model.heads;
    return mt_tensor_view(rt, of, 4, (const int64_t[]){of->shape[0], heads, T, D},
                          (const int64_t[]){T * width, D, width, 1}, column);
}

/* Returns a view with the last two dimensions exchanged. */
static struct mt_tensor *turned(struct mt_runtime *rt, struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    return mt_tensor_view(rt, x, 4, (const int64_t[]){x->shape[0], x->shape[1], x->shape[3], x->shape[2]},
                          (const int64_t[]){x->stride[0], x->stride[1], x->stride[3], x->stride[2]}, 0);
}

/* Allocates a tensor (B,H,T,columns). */
static struct mt_tensor *head_matrix(struct mt_runtime *rt, const struct mt_fused_model *model, mt_role role,
                                     const char *name, mt_dtype dtype, int64_t columns)
{
    const struct mt_training_config *config = model->config;
    return mt_tensor_empty(rt, role, name, dtype, 4,
                           (const int64_t[]){config->batch, config->model.heads, config->seq, columns});
}

/* Q, K and V, or their gradients, as heads: views (B,H,T,D), held. */
struct heads {
    struct mt_tensor *q, *k, *v;
};

static struct heads heads_of(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_tensor *projected)
{
    int64_t C = model->config->model.d_model, H = model->config->model.heads;
    return (struct heads){heads_view(rt, model, projected, H, 0), heads_view(rt, model, projected, H, C),
                          heads_view(rt, model, projected, H, 2 * C)};
}

static void heads_release(struct mt_runtime *rt, struct heads *heads)
{
    MT_RELEASE(rt, heads->q, heads->k, heads->v);
}

static double scale_of(const struct mt_fused_model *model)
{
    return 1 / sqrt((double)(model->config->model.d_model / model->config->model.heads));
}

/* Rotates queries and keys by their positions, in place. They are adjacent, so one view covers both. */
static void rotate(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_tensor *projected,
                   int direction)
{
    if (!model->config->model.rope)
        return;
    struct mt_tensor *both = heads_view(rt, model, projected, 2 * model->config->model.heads, 0);
    mt_op_rotate(rt, MT_ROPE_THETA, direction, both, both);
    mt_tensor_release(rt, both);
}

/* Computes attention as one op. */
static void flash(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_layer *layer,
                  const struct heads *heads, struct mt_tensor *out)
{
    if (rt->grad_enabled)
        layer->lse = head_matrix(rt, model, MT_ROLE_ACTIVATION, "lse", mt_sum_dtype(model->compute), 1);
    const struct mt_attention attention = {
        .scale = scale_of(model), .q = heads->q, .k = heads->k, .v = heads->v, .out = out, .lse = layer->lse};
    mt_op_attention(rt, &attention);
}

/* Computes attention via the weights. */
static void weigh(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_layer *layer,
                  const struct heads *heads, struct mt_tensor *out)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_SOFTMAX, "softmax");
    struct mt_tensor *weights =
        head_matrix(rt, model, mt_effective_role(rt, MT_ROLE_ACTIVATION), NULL, model->compute, model->config->seq);
    rt->scope = outer;
    struct mt_tensor *keys = turned(rt, heads->k);
    mt_op_product(rt, 1, 0, weights, heads->q, keys);
    mt_op_softmax(rt, scale_of(model), MTK_KEYS_UP_TO_QUERY, weights, weights);
    mt_op_product(rt, 1, 0, out, weights, heads->v);
    mt_tensor_release(rt, keys);
    if (rt->grad_enabled)
        layer->weights = mt_tensor_retain(weights);
    mt_tensor_release(rt, weights);
}

struct mt_tensor *mt_fused_attention(struct mt_runtime *rt, const struct mt_fused_model *model,
                                     struct mt_fused_layer *layer)
{
    struct mt_tensor *projected = layer->projected;
    if (projected == NULL || rt->status != MT_OK)
        return NULL;
    assert(projected->shape[2] == 3 * model->config->model.d_model);
    const int64_t shape[] = {projected->shape[0], projected->shape[1], model->config->model.d_model};
    rotate(rt, model, projected, 1);
    struct mt_tensor *context =
        mt_tensor_empty(rt, mt_effective_role(rt, MT_ROLE_ACTIVATION), "context", model->compute, 3, shape);
    struct heads heads = heads_of(rt, model, projected);
    struct mt_tensor *out = heads_view(rt, model, context, model->config->model.heads, 0);
    if (model->config->attention == MT_ATTENTION_FLASH)
        flash(rt, model, layer, &heads, out);
    else
        weigh(rt, model, layer, &heads, out);
    mt_tensor_release(rt, out);
    heads_release(rt, &heads);
    return context;
}

static void flash_grad(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_layer *layer,
                       const struct heads *heads, const struct heads *grads, struct mt_tensor *grad)
{
    struct mt_tensor *delta = head_matrix(rt, model, MT_ROLE_TEMPORARY, "delta", mt_sum_dtype(model->compute), 1);
    struct mt_tensor *out = heads_view(rt, model, layer->context, model->config->model.heads, 0);
    const struct mt_attention attention = {.scale = scale_of(model),
                                           .q = heads->q,
                                           .k = heads->k,
                                           .v = heads->v,
                                           .out = out,
                                           .lse = layer->lse,
                                           .grad = grad,
                                           .delta = delta,
                                           .dq = grads->q,
                                           .dk = grads->k,
                                           .dv = grads->v};
    mt_op_attention_grad(rt, &attention);
    MT_RELEASE(rt, out, delta);
}

static void weigh_grad(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_layer *layer,
                       const struct heads *heads, const struct heads *grads, struct mt_tensor *grad)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_SOFTMAX, "softmax");
    struct mt_tensor *scores = head_matrix(rt, model, MT_ROLE_TEMPORARY, "grad", model->compute, model->config->seq);
    rt->scope = outer;
    struct mt_tensor *values = turned(rt, heads->v), *weights = turned(rt, layer->weights);
    mt_op_product(rt, 1, 0, scores, grad, values);
    mt_op_product(rt, 1, 0, grads->v, weights, grad);
    mt_op_softmax_grad(rt, scale_of(model), MTK_KEYS_UP_TO_QUERY, scores, scores, layer->weights);
    struct mt_tensor *queries_first = turned(rt, scores);
    mt_op_product(rt, 1, 0, grads->q, scores, heads->k);
    mt_op_product(rt, 1, 0, grads->k, queries_first, heads->q);
    MT_RELEASE(rt, queries_first, weights, values, scores);
}

struct mt_tensor *mt_fused_attention_grad(struct mt_runtime *rt, const struct mt_fused_model *model,
                                          struct mt_fused_layer *layer, struct mt_tensor *grad)
{
    if (grad == NULL || rt->status != MT_OK)
        return NULL;
    assert(layer->projected != NULL && (layer->weights == NULL) != (layer->lse == NULL)); /* forward kept them */
    struct mt_tensor *dprojected =
        mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, "grad", model->compute, layer->projected);
    struct heads heads = heads_of(rt, model, layer->projected), grads = heads_of(rt, model, dprojected);
    struct mt_tensor *of_context = heads_view(rt, model, grad, model->config->model.heads, 0);
    if (model->config->attention == MT_ATTENTION_FLASH)
        flash_grad(rt, model, layer, &heads, &grads, of_context);
    else
        weigh_grad(rt, model, layer, &heads, &grads, of_context);
    mt_tensor_release(rt, of_context);
    heads_release(rt, &grads);
    heads_release(rt, &heads);
    mt_tensor_drop(rt, &layer->weights);
    mt_tensor_drop(rt, &layer->lse);
    mt_tensor_drop(rt, &layer->projected);
    rotate(rt, model, dprojected, -1);
    return dprojected;
}
