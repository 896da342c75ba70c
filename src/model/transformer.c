/* The forward pass. Which tensor is let go where follows the reference program's scopes: a name that goes out of scope
 * releases here. */
#include "model/transformer.h"

#include "model/einsum.h"
#include "model/functions.h"

#include <math.h>
#include <stdio.h>

static const double NORM_EPSILON = 1e-5;
static const double ROPE_THETA = 10000;

/* What is kept for backward only if matrix products save it as it is: under autocast they save their own copy. */
static mt_role operand_role(const struct mt_runtime *rt)
{
    return rt->casts != NULL ? MT_ROLE_TEMPORARY : MT_ROLE_SAVED;
}

/* RMSNorm: x / sqrt(mean(x²) + eps) * weight, over the last dimension, which is C. Zhang, Sennrich, 2019. */
static struct mt_tensor *norm_forward(struct mt_runtime *rt, const char *name, struct mt_tensor *x,
                                      const struct mt_parameter *weight)
{
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_NORM, "norm");
    struct mt_tensor *square = mt_power(rt, MT_ROLE_TEMPORARY, "pow", x, 2);
    struct mt_tensor *mean = mt_mean_last(rt, MT_ROLE_TEMPORARY, "mean", square);
    mt_tensor_release(rt, square);
    struct mt_tensor *shifted = mt_add_scalar(rt, MT_ROLE_TEMPORARY, "add", mean, NORM_EPSILON);
    mt_tensor_release(rt, mean);
    struct mt_tensor *scale = mt_rsqrt(rt, MT_ROLE_SAVED, "rsqrt", shifted);
    mt_tensor_release(rt, shifted);
    struct mt_tensor *unit = mt_multiply(rt, MT_ROLE_SAVED, "mul", x, scale);
    struct mt_tensor *out = mt_multiply(rt, operand_role(rt), "weight", unit, weight->value);
    mt_tensor_release(rt, unit);
    mt_tensor_release(rt, scale);
    mt_scope_leave(rt, outer);
    return out;
}

static struct mt_tensor *linear_forward(struct mt_runtime *rt, const char *name, mt_role role, struct mt_tensor *x,
                                        const struct mt_parameter *weight)
{
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_EINSUM, "einsum");
    struct mt_tensor *y = mt_einsum_linear(rt, role, x, weight);
    mt_scope_leave(rt, outer);
    return y;
}

/* (B,T,C) seen as (B,H,T,D). */
static struct mt_tensor *split_heads(struct mt_runtime *rt, struct mt_tensor *x, int64_t heads)
{
    static const int heads_first[] = {0, 2, 1, 3};
    if (x == NULL)
        return NULL;
    const int64_t shape[] = {x->shape[0], x->shape[1], heads, x->shape[2] / heads};
    struct mt_tensor *by_head = mt_view(rt, x, 4, shape);
    struct mt_tensor *out = mt_permute(rt, by_head, heads_first);
    mt_tensor_release(rt, by_head);
    return out;
}

/* (B,H,T,D) to (B,T,C): a copy. */
static struct mt_tensor *merge_heads(struct mt_runtime *rt, struct mt_tensor *x)
{
    static const int positions_first[] = {0, 2, 1, 3};
    if (x == NULL)
        return NULL;
    struct mt_tensor *by_position = mt_permute(rt, x, positions_first);
    struct mt_tensor *out = mt_reshape(rt, MT_ROLE_SAVED, "merge_heads", by_position, 3,
                                       (const int64_t[]){x->shape[0], x->shape[2], x->shape[1] * x->shape[3]});
    mt_tensor_release(rt, by_position);
    return out;
}

/* What a projection (B,T,C) is to backward: products save it itself where its heads can be folded without a copy, and
 * attention as one op does in any case. */
static mt_role projection_role(const struct mt_transformer *model, const struct mt_tensor *x)
{
    bool folds = x->shape[0] == 1 || x->shape[1] == 1 || model->config.heads == 1;
    return folds || model->attention == MT_ATTENTION_FLASH ? MT_ROLE_SAVED : MT_ROLE_TEMPORARY;
}

/* The causal mask (T,T): true where a key is not after the query. */
static struct mt_tensor *causal_mask(struct mt_runtime *rt, int64_t length)
{
    const int64_t shape[] = {length, length};
    struct mt_tensor *ones = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "mask.ones", MT_BOOL, 2, shape);
    mt_op_fill(rt, ones, 1);
    struct mt_tensor *mask =
        mt_tensor_empty(rt, rt->grad_enabled ? MT_ROLE_SAVED : MT_ROLE_TEMPORARY, "mask.tril", MT_BOOL, 2, shape);
    mt_op_lower_triangle(rt, mask, ones);
    mt_tensor_release(rt, ones);
    return mask;
}

/* Q·Kᵀ / sqrt(D). */
static struct mt_tensor *scaled_scores(struct mt_runtime *rt, struct mt_tensor *q, struct mt_tensor *k)
{
    struct mt_tensor *scores = mt_einsum_scores(rt, q, k);
    if (scores == NULL)
        return NULL;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_ATTN_SCORES, "scores");
    struct mt_tensor *head_size = mt_scalar(rt, MT_ROLE_TEMPORARY, "head_size", scores->dtype, (double)q->shape[3]);
    struct mt_tensor *root = mt_scalar(rt, MT_ROLE_SAVED, "sqrt", scores->dtype, 0);
    mt_op_unary(rt, MTK_SQRT, 0, root, head_size);
    mt_tensor_release(rt, head_size);
    struct mt_tensor *scaled = mt_divide(rt, MT_ROLE_TEMPORARY, "div", scores, root);
    mt_tensor_release(rt, root);
    mt_tensor_release(rt, scores);
    rt->scope = outer;
    return scaled;
}

/* e^(x - max x) / sum e^(x - max x), over the last dimension. */
static struct mt_tensor *softmax(struct mt_runtime *rt, struct mt_tensor *x)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_SOFTMAX, "softmax");
    struct mt_tensor *maximum = mt_max_last(rt, MT_ROLE_SAVED, "max", x);
    struct mt_tensor *shifted = mt_subtract(rt, MT_ROLE_TEMPORARY, "sub", x, maximum);
    mt_tensor_release(rt, maximum);
    struct mt_tensor *exponential = mt_exp(rt, MT_ROLE_SAVED, "exp", shifted);
    struct mt_tensor *sum = mt_sum_last(rt, MT_ROLE_SAVED, "sum", exponential);
    struct mt_tensor *weights = mt_divide(rt, operand_role(rt), "div", exponential, sum);
    mt_tensor_release(rt, sum);
    mt_tensor_release(rt, shifted);
    mt_tensor_release(rt, exponential);
    rt->scope = outer;
    return weights;
}

/* Scores with -inf where the mask hides. */
static struct mt_tensor *masked_scores(struct mt_runtime *rt, struct mt_tensor *scores, struct mt_tensor *mask,
                                       struct mt_tensor **out_minus_infinity)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_ATTN_OUT, "mask");
    *out_minus_infinity = mt_scalar(rt, MT_ROLE_TEMPORARY, "minus_infinity", scores->dtype, -INFINITY);
    struct mt_tensor *masked = mt_where(rt, MT_ROLE_SAVED, "where", mask, scores, *out_minus_infinity);
    rt->scope = outer;
    return masked;
}

static struct mt_tensor *one_op_softmax(struct mt_runtime *rt, struct mt_tensor *x)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_SOFTMAX, "softmax");
    struct mt_tensor *weights = mt_softmax(rt, MT_ROLE_SAVED, NULL, x);
    rt->scope = outer;
    return weights;
}

/* Weights times values, which are kept as they are where they are merged without a copy. */
static struct mt_tensor *weighted_values(struct mt_runtime *rt, struct mt_tensor *weights, struct mt_tensor *v)
{
    bool merges = v != NULL && (v->shape[1] == 1 || v->shape[2] == 1);
    return mt_einsum_context(rt, merges ? MT_ROLE_SAVED : MT_ROLE_TEMPORARY, weights, v);
}

/* softmax(where(mask, Q·Kᵀ / sqrt(D), -inf)) · V, on (B,H,T,D). */
static struct mt_tensor *masked_attention(struct mt_runtime *rt, mt_attention_kind kind, struct mt_tensor *q,
                                          struct mt_tensor *k, struct mt_tensor *v, struct mt_tensor *mask)
{
    struct mt_tensor *scores = scaled_scores(rt, q, k), *minus_infinity;
    if (scores == NULL)
        return NULL;
    struct mt_tensor *masked = masked_scores(rt, scores, mask, &minus_infinity);
    mt_tensor_release(rt, scores);
    struct mt_tensor *weights = kind == MT_ATTENTION_SOFTMAX ? one_op_softmax(rt, masked) : softmax(rt, masked);
    struct mt_tensor *context = weighted_values(rt, weights, v);
    mt_tensor_release(rt, masked);
    mt_tensor_release(rt, minus_infinity);
    mt_tensor_release(rt, weights);
    return context;
}

static double score_scale(const struct mt_tensor *q)
{
    return 1 / sqrt((double)q->shape[3]);
}

/* The same with the scale, the mask and the softmax as one op. */
static struct mt_tensor *weights_attention(struct mt_runtime *rt, struct mt_tensor *q, struct mt_tensor *k,
                                           struct mt_tensor *v)
{
    struct mt_tensor *scores = mt_einsum_scores(rt, q, k);
    if (scores == NULL)
        return NULL;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_SOFTMAX, "softmax");
    struct mt_tensor *weights = mt_causal_weights(rt, MT_ROLE_SAVED, "causal", scores, score_scale(q));
    rt->scope = outer;
    mt_tensor_release(rt, scores);
    struct mt_tensor *context = weighted_values(rt, weights, v);
    mt_tensor_release(rt, weights);
    return context;
}

/* The same as one op. */
static struct mt_tensor *flash_attention(struct mt_runtime *rt, struct mt_tensor *q, struct mt_tensor *k,
                                         struct mt_tensor *v)
{
    if (q == NULL)
        return NULL;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_ATTN, "flash");
    struct mt_tensor *context = mt_flash_attention(rt, MT_ROLE_SAVED, NULL, q, k, v, score_scale(q));
    rt->scope = outer;
    return context;
}

/* Attention of (B,H,T,D). */
static struct mt_tensor *attend(struct mt_runtime *rt, mt_attention_kind kind, struct mt_tensor *q, struct mt_tensor *k,
                                struct mt_tensor *v, struct mt_tensor *mask)
{
    if (kind == MT_ATTENTION_FLASH)
        return flash_attention(rt, q, k, v);
    return kind == MT_ATTENTION_WEIGHTS ? weights_attention(rt, q, k, v) : masked_attention(rt, kind, q, k, v, mask);
}

/* Whether the mask is a tensor, and no part of an op. */
static bool has_mask(mt_attention_kind kind)
{
    return kind == MT_ATTENTION_CUSTOM || kind == MT_ATTENTION_SOFTMAX;
}

/* (B,T,C) as heads, rotated by their positions if the model has RoPE. */
static struct mt_tensor *rotated_heads(struct mt_runtime *rt, const struct mt_model_config *config, const char *name,
                                       struct mt_tensor *x)
{
    struct mt_tensor *heads = split_heads(rt, x, config->heads);
    if (!config->rope)
        return heads;
    struct mt_tensor *rotated = mt_rotate(rt, MT_ROLE_SAVED, name, heads, ROPE_THETA);
    mt_tensor_release(rt, heads);
    return rotated;
}

static struct mt_tensor *attention_forward(struct mt_runtime *rt, const struct mt_transformer *model,
                                           const struct mt_layer *layer, struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    const struct mt_model_config *config = &model->config;
    struct mt_scope outer = mt_scope_enter(rt, "attn", MT_CATEGORY_ATTN, "attn");
    const mt_role v_role = projection_role(model, x), q_role = config->rope ? MT_ROLE_TEMPORARY : v_role;
    struct mt_tensor *q = linear_forward(rt, "q_proj", q_role, x, layer->q_proj);
    struct mt_tensor *k = linear_forward(rt, "k_proj", q_role, x, layer->k_proj);
    struct mt_tensor *v = linear_forward(rt, "v_proj", v_role, x, layer->v_proj);
    struct mt_tensor *q_heads = rotated_heads(rt, config, "rope.q", q);
    struct mt_tensor *k_heads = rotated_heads(rt, config, "rope.k", k);
    struct mt_tensor *v_heads = split_heads(rt, v, config->heads);
    struct mt_tensor *mask = has_mask(model->attention) ? causal_mask(rt, x->shape[1]) : NULL;
    struct mt_tensor *context = attend(rt, model->attention, q_heads, k_heads, v_heads, mask);
    struct mt_tensor *merged = merge_heads(rt, context);
    mt_tensor_release(rt, context);
    struct mt_tensor *out = linear_forward(rt, "output_proj", MT_ROLE_TEMPORARY, merged, layer->output_proj);
    mt_tensor_release(rt, q_heads);
    mt_tensor_release(rt, q);
    mt_tensor_release(rt, k_heads);
    mt_tensor_release(rt, k);
    mt_tensor_release(rt, v_heads);
    mt_tensor_release(rt, v);
    mt_tensor_release(rt, mask);
    mt_tensor_release(rt, merged);
    mt_scope_leave(rt, outer);
    return out;
}

/* SwiGLU: w2(silu(w1 x) * w3 x), silu(a) = a sigmoid(a). Shazeer, 2020. */
static struct mt_tensor *ffn_forward(struct mt_runtime *rt, const struct mt_layer *layer, struct mt_tensor *x)
{
    struct mt_scope outer = mt_scope_enter(rt, "ffn", MT_CATEGORY_FFN, "swiglu");
    struct mt_tensor *gate = linear_forward(rt, "w1", MT_ROLE_SAVED, x, layer->w1);
    struct mt_tensor *sigmoid = mt_sigmoid(rt, MT_ROLE_SAVED, "sigmoid", gate);
    struct mt_tensor *silu = mt_multiply(rt, MT_ROLE_SAVED, "silu", gate, sigmoid);
    mt_tensor_release(rt, sigmoid);
    mt_tensor_release(rt, gate);
    struct mt_tensor *value = linear_forward(rt, "w3", MT_ROLE_SAVED, x, layer->w3);
    struct mt_tensor *gated = mt_multiply(rt, MT_ROLE_SAVED, "mul", silu, value);
    mt_tensor_release(rt, value);
    mt_tensor_release(rt, silu);
    struct mt_tensor *out = linear_forward(rt, "w2", MT_ROLE_TEMPORARY, gated, layer->w2);
    mt_tensor_release(rt, gated);
    mt_scope_leave(rt, outer);
    return out;
}

/* x + attention(norm x), then that + ffn(norm of that). */
static struct mt_tensor *block_forward(struct mt_runtime *rt, const struct mt_transformer *model,
                                       const struct mt_layer *layer, struct mt_tensor *x)
{
    struct mt_tensor *attn_input = norm_forward(rt, "ln1", x, layer->ln1);
    struct mt_tensor *attn_output = attention_forward(rt, model, layer, attn_input);
    struct mt_tensor *middle = mt_add(rt, MT_ROLE_SAVED, "add", x, attn_output);
    mt_tensor_release(rt, attn_output);
    struct mt_tensor *ffn_input = norm_forward(rt, "ln2", middle, layer->ln2);
    struct mt_tensor *ffn_output = ffn_forward(rt, layer, ffn_input);
    struct mt_tensor *out = mt_add(rt, MT_ROLE_SAVED, "add", middle, ffn_output);
    mt_tensor_release(rt, ffn_output);
    mt_tensor_release(rt, attn_input);
    mt_tensor_release(rt, ffn_input);
    mt_tensor_release(rt, middle);
    return out;
}

static struct mt_tensor *embedding_forward(struct mt_runtime *rt, const struct mt_parameter *table,
                                           struct mt_tensor *tokens)
{
    struct mt_scope outer = mt_scope_enter(rt, "token_embeddings", MT_CATEGORY_EMBED, "embedding");
    struct mt_tensor *x = mt_embedding(rt, MT_ROLE_SAVED, NULL, table->value, tokens);
    mt_scope_leave(rt, outer);
    return x;
}

struct mt_tensor *mt_transformer_forward(struct mt_runtime *rt, struct mt_transformer *model, struct mt_tensor *tokens)
{
    struct mt_scope outermost = mt_scope_enter(rt, "model", MT_CATEGORY_BLOCK, "model");
    struct mt_tensor *x = embedding_forward(rt, model->token_embeddings, tokens);
    struct mt_scope model_scope = mt_scope_enter(rt, "layers", MT_CATEGORY_BLOCK, "residual");
    for (int64_t i = 0; i < model->config.layers; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        struct mt_scope layers_scope = mt_scope_enter(rt, name, MT_CATEGORY_BLOCK, "residual");
        rt->scope.layer = (int)i;
        struct mt_tensor *next = block_forward(rt, model, &model->layers[i], x);
        mt_tensor_release(rt, x);
        x = next;
        mt_scope_leave(rt, layers_scope);
    }
    mt_scope_leave(rt, model_scope);
    struct mt_tensor *normed = norm_forward(rt, "ln_final", x, model->ln_final);
    mt_tensor_release(rt, x);
    struct mt_tensor *logits = linear_forward(rt, "lm_head", MT_ROLE_SAVED, normed, model->lm_head);
    mt_tensor_release(rt, normed);
    mt_scope_leave(rt, outermost);
    return logits;
}
