/* Attention, eager. A tensor is released where its name in the reference program goes out of scope. */
#include "producers/model/attention_layer.h"

#include "producers/model/functions.h"

#include <assert.h>
#include <math.h>

/* Returns (B,T,C) as a view (B,H,T,D). */
static struct mt_tensor *split_heads(struct mt_runtime *rt, struct mt_tensor *x, int64_t heads)
{
    static const int heads_first[] = {0, 2, 1, 3};
    if (x == NULL)
        return NULL;
    assert(x->dims == 3 && heads > 0 && x->shape[2] % heads == 0);
    const int64_t shape[] = {x->shape[0], x->shape[1], heads, x->shape[2] / heads};
    struct mt_tensor *by_head = mt_view(rt, x, 4, shape);
    struct mt_tensor *out = mt_permute(rt, by_head, heads_first);
    mt_tensor_release(rt, by_head);
    return out;
}

/* Copies (B,H,T,D) to (B,T,C). */
static struct mt_tensor *merge_heads(struct mt_runtime *rt, struct mt_tensor *x)
{
    static const int positions_first[] = {0, 2, 1, 3};
    if (x == NULL)
        return NULL;
    struct mt_tensor *by_position = mt_permute(rt, x, positions_first);
    struct mt_tensor *out = mt_reshape(rt, MT_ROLE_ACTIVATION, "merge_heads", by_position, 3,
                                       (const int64_t[]){x->shape[0], x->shape[2], x->shape[1] * x->shape[3]});
    mt_tensor_release(rt, by_position);
    return out;
}

/* Returns the role of a projection (B,T,C). Products save it if its heads can be folded without a copy. Attention as
 * one op always saves it. */
static mt_role projection_role(const struct mt_attention_layer *layer, const struct mt_tensor *x)
{
    bool folds = x->shape[0] == 1 || x->shape[1] == 1 || layer->heads == 1;
    return folds || layer->kind == MT_ATTENTION_FLASH ? MT_ROLE_ACTIVATION : MT_ROLE_TEMPORARY;
}

/* Computes the causal mask (T,T), which is set for keys up to the query. */
static struct mt_tensor *causal_mask(struct mt_runtime *rt, int64_t length)
{
    const int64_t shape[] = {length, length};
    struct mt_tensor *ones = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "mask.ones", MT_BOOL, 2, shape);
    mt_op_fill(rt, ones, 1);
    struct mt_tensor *mask =
        mt_tensor_empty(rt, mt_effective_role(rt, MT_ROLE_ACTIVATION), "mask.tril", MT_BOOL, 2, shape);
    mt_op_lower_triangle(rt, mask, ones);
    mt_tensor_release(rt, ones);
    return mask;
}

/* Computes Q·Kᵀ / sqrt(D). */
static struct mt_tensor *scaled_scores(struct mt_runtime *rt, mt_role role, struct mt_tensor *q, struct mt_tensor *k)
{
    struct mt_tensor *scores = mt_einsum_scores(rt, q, k);
    if (scores == NULL)
        return NULL;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_ATTN_SCORES, "scores");
    struct mt_tensor *head_size = mt_scalar(rt, MT_ROLE_TEMPORARY, "head_size", scores->dtype, (double)q->shape[3]);
    struct mt_tensor *root = mt_scalar(rt, MT_ROLE_ACTIVATION, "sqrt", scores->dtype, 0);
    mt_op_unary(rt, MTK_SQRT, 0, root, head_size);
    mt_tensor_release(rt, head_size);
    struct mt_tensor *scaled = mt_divide(rt, role, "div", scores, root);
    MT_RELEASE(rt, root, scores);
    rt->scope = outer;
    return scaled;
}

/* Computes e^(x - max x) / sum e^(x - max x), over the last dimension. */
static struct mt_tensor *softmax(struct mt_runtime *rt, struct mt_tensor *x)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_SOFTMAX, "softmax");
    struct mt_tensor *maximum = mt_max_last(rt, MT_ROLE_ACTIVATION, "max", x);
    struct mt_tensor *shifted = mt_subtract(rt, MT_ROLE_TEMPORARY, "sub", x, maximum);
    mt_tensor_release(rt, maximum);
    struct mt_tensor *exponential = mt_exp(rt, MT_ROLE_ACTIVATION, "exp", shifted);
    struct mt_tensor *sum = mt_sum_last(rt, MT_ROLE_ACTIVATION, "sum", exponential);
    struct mt_tensor *weights = mt_divide(rt, mt_operand_role(rt), "div", exponential, sum);
    MT_RELEASE(rt, sum, shifted, exponential);
    rt->scope = outer;
    return weights;
}

/* Returns the scores, with -inf for keys that the mask hides. The -inf is a tensor, too, which the caller releases. */
static struct mt_tensor *masked_scores(struct mt_runtime *rt, mt_role role, struct mt_tensor *scores,
                                       struct mt_tensor *mask, struct mt_tensor **out_minus_infinity)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_ATTN_OUT, "mask");
    *out_minus_infinity = mt_scalar(rt, MT_ROLE_TEMPORARY, "minus_infinity", scores->dtype, -INFINITY);
    struct mt_tensor *masked = mt_where(rt, role, "where", mask, scores, *out_minus_infinity);
    rt->scope = outer;
    return masked;
}

static struct mt_tensor *one_op_softmax(struct mt_runtime *rt, struct mt_tensor *x)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_SOFTMAX, "softmax");
    struct mt_tensor *weights = mt_softmax(rt, MT_ROLE_ACTIVATION, NULL, x);
    rt->scope = outer;
    return weights;
}

/* Multiplies weights and values. The result is saved if its heads are merged without a copy. */
static struct mt_tensor *weighted_values(struct mt_runtime *rt, struct mt_tensor *weights, struct mt_tensor *v)
{
    bool merges = v != NULL && (v->shape[1] == 1 || v->shape[2] == 1);
    return mt_einsum_context(rt, merges ? MT_ROLE_ACTIVATION : MT_ROLE_TEMPORARY, weights, v);
}

/* Computes softmax(x) in five ops or in one. */
static struct mt_tensor *softmax_of(struct mt_runtime *rt, mt_attention_kind kind, struct mt_tensor *x)
{
    return kind == MT_ATTENTION_SOFTMAX ? one_op_softmax(rt, x) : softmax(rt, x);
}

/* Returns the role of softmax's operand. Softmax as one op saves only its result. */
static mt_role softmax_operand_role(mt_attention_kind kind)
{
    return kind == MT_ATTENTION_SOFTMAX ? MT_ROLE_TEMPORARY : MT_ROLE_ACTIVATION;
}

/* Computes softmax(Q·Kᵀ / sqrt(D)) · V, on (B,H,T,D). */
static struct mt_tensor *open_attention(struct mt_runtime *rt, mt_attention_kind kind, struct mt_tensor *q,
                                        struct mt_tensor *k, struct mt_tensor *v)
{
    struct mt_tensor *scores = scaled_scores(rt, softmax_operand_role(kind), q, k);
    if (scores == NULL)
        return NULL;
    struct mt_tensor *weights = softmax_of(rt, kind, scores);
    struct mt_tensor *context = weighted_values(rt, weights, v);
    MT_RELEASE(rt, scores, weights);
    return context;
}

/* Computes softmax(where(mask, Q·Kᵀ / sqrt(D), -inf)) · V, on (B,H,T,D). */
static struct mt_tensor *masked_attention(struct mt_runtime *rt, mt_attention_kind kind, struct mt_tensor *q,
                                          struct mt_tensor *k, struct mt_tensor *v, struct mt_tensor *mask)
{
    struct mt_tensor *scores = scaled_scores(rt, MT_ROLE_TEMPORARY, q, k), *minus_infinity;
    if (scores == NULL)
        return NULL;
    struct mt_tensor *masked = masked_scores(rt, softmax_operand_role(kind), scores, mask, &minus_infinity);
    mt_tensor_release(rt, scores);
    struct mt_tensor *weights = softmax_of(rt, kind, masked);
    struct mt_tensor *context = weighted_values(rt, weights, v);
    MT_RELEASE(rt, masked, minus_infinity, weights);
    return context;
}

static double score_scale(const struct mt_tensor *q)
{
    return 1 / sqrt((double)q->shape[3]);
}

/* Computes the same with scale, mask and softmax as one op. */
static struct mt_tensor *weights_attention(struct mt_runtime *rt, struct mt_tensor *q, struct mt_tensor *k,
                                           struct mt_tensor *v)
{
    struct mt_tensor *scores = mt_einsum_scores(rt, q, k);
    if (scores == NULL)
        return NULL;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_SOFTMAX, "softmax");
    struct mt_tensor *weights = mt_causal_weights(rt, MT_ROLE_ACTIVATION, "causal", scores, score_scale(q));
    rt->scope = outer;
    mt_tensor_release(rt, scores);
    struct mt_tensor *context = weighted_values(rt, weights, v);
    mt_tensor_release(rt, weights);
    return context;
}

/* Computes the same as one op. */
static struct mt_tensor *flash_attention(struct mt_runtime *rt, struct mt_tensor *q, struct mt_tensor *k,
                                         struct mt_tensor *v)
{
    if (q == NULL)
        return NULL;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_ATTN, "flash");
    struct mt_tensor *context = mt_flash_attention(rt, MT_ROLE_ACTIVATION, NULL, q, k, v, score_scale(q));
    rt->scope = outer;
    return context;
}

/* Computes attention of (B,H,T,D) in one of four ways. `mask` is NULL if it is part of an op, or if there is none. */
static struct mt_tensor *attend(struct mt_runtime *rt, const struct mt_attention_layer *layer, struct mt_tensor *q,
                                struct mt_tensor *k, struct mt_tensor *v, struct mt_tensor *mask)
{
    if (layer->kind == MT_ATTENTION_FLASH)
        return flash_attention(rt, q, k, v);
    if (layer->kind == MT_ATTENTION_WEIGHTS)
        return weights_attention(rt, q, k, v);
    return layer->without_mask ? open_attention(rt, layer->kind, q, k, v)
                               : masked_attention(rt, layer->kind, q, k, v, mask);
}

/* Computes the mask of a layer; NULL if it is part of an op, or if there is none. */
static struct mt_tensor *layer_mask(struct mt_runtime *rt, const struct mt_attention_layer *layer, int64_t length)
{
    const bool is_in_op = layer->kind == MT_ATTENTION_WEIGHTS || layer->kind == MT_ATTENTION_FLASH;
    assert(!is_in_op || !layer->without_mask);
    return is_in_op || layer->without_mask ? NULL : causal_mask(rt, length);
}

/* Returns (B,T,C) as heads, rotated by their positions if the model has RoPE. */
static struct mt_tensor *rotated_heads(struct mt_runtime *rt, const struct mt_attention_layer *layer, const char *name,
                                       struct mt_tensor *x)
{
    struct mt_tensor *heads = split_heads(rt, x, layer->heads);
    if (!layer->rope)
        return heads;
    struct mt_tensor *rotated = mt_rotate(rt, MT_ROLE_ACTIVATION, name, heads, MT_ROPE_THETA);
    mt_tensor_release(rt, heads);
    return rotated;
}

struct mt_tensor *mt_attention_layer_forward(struct mt_runtime *rt, const struct mt_attention_layer *layer,
                                             struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    struct mt_scope outer = mt_scope_enter(rt, "attn", MT_CATEGORY_ATTN, "attn");
    const mt_role v_role = projection_role(layer, x), q_role = layer->rope ? MT_ROLE_TEMPORARY : v_role;
    struct mt_tensor *q = mt_einsum_linear(rt, "q_proj", q_role, x, layer->q_proj);
    struct mt_tensor *k = mt_einsum_linear(rt, "k_proj", q_role, x, layer->k_proj);
    struct mt_tensor *v = mt_einsum_linear(rt, "v_proj", v_role, x, layer->v_proj);
    struct mt_tensor *q_heads = rotated_heads(rt, layer, "rope.q", q);
    struct mt_tensor *k_heads = rotated_heads(rt, layer, "rope.k", k);
    struct mt_tensor *v_heads = split_heads(rt, v, layer->heads);
    struct mt_tensor *mask = layer_mask(rt, layer, x->shape[1]);
    struct mt_tensor *context = attend(rt, layer, q_heads, k_heads, v_heads, mask);
    struct mt_tensor *merged = merge_heads(rt, context);
    mt_tensor_release(rt, context);
    struct mt_tensor *out = mt_einsum_linear(rt, "output_proj", MT_ROLE_TEMPORARY, merged, layer->output_proj);
    MT_RELEASE(rt, q_heads, q, k_heads, k, v_heads, v, mask, merged);
    mt_scope_leave(rt, outer);
    return out;
}

struct mt_tensor *mt_attention_layer_attend(struct mt_runtime *rt, const struct mt_attention_layer *layer,
                                            struct mt_tensor *q, struct mt_tensor *k, struct mt_tensor *v)
{
    if (q == NULL || k == NULL || v == NULL)
        return NULL;
    struct mt_scope outer = mt_scope_enter(rt, "attn", MT_CATEGORY_ATTN, "attn");
    struct mt_tensor *q_heads = split_heads(rt, q, layer->heads);
    struct mt_tensor *k_heads = split_heads(rt, k, layer->heads);
    struct mt_tensor *v_heads = split_heads(rt, v, layer->heads);
    struct mt_tensor *mask = layer_mask(rt, layer, q->shape[1]);
    struct mt_tensor *context = attend(rt, layer, q_heads, k_heads, v_heads, mask);
    struct mt_tensor *out = merge_heads(rt, context);
    MT_RELEASE(rt, context, q_heads, k_heads, v_heads, mask);
    mt_scope_leave(rt, outer);
    return out;
}
