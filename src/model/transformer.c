/* The forward pass. Which tensor is let go where follows the reference program's scopes: a name that goes out of scope
 * releases here. */
#include "model/transformer.h"

#include "model/einsum.h"
#include "model/functions.h"

/* RMSNorm: x / sqrt(mean(x²) + eps) * weight, over the last dimension, which is C. Zhang, Sennrich, 2019. */
static struct mt_tensor *norm_forward(struct mt_runtime *rt, const char *name, struct mt_tensor *x,
                                      const struct mt_parameter *weight)
{
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_NORM, "norm");
    struct mt_tensor *square = mt_power(rt, MT_ROLE_TEMPORARY, "pow", x, 2);
    struct mt_tensor *mean = mt_mean_last(rt, MT_ROLE_TEMPORARY, "mean", square);
    mt_tensor_release(rt, square);
    struct mt_tensor *shifted = mt_add_scalar(rt, MT_ROLE_TEMPORARY, "add", mean, MT_NORM_EPSILON);
    mt_tensor_release(rt, mean);
    struct mt_tensor *scale = mt_rsqrt(rt, MT_ROLE_SAVED, "rsqrt", shifted);
    mt_tensor_release(rt, shifted);
    struct mt_tensor *unit = mt_multiply(rt, MT_ROLE_SAVED, "mul", x, scale);
    struct mt_tensor *out = mt_multiply(rt, mt_operand_role(rt), "weight", unit, weight->value);
    MT_RELEASE(rt, unit, scale);
    mt_scope_leave(rt, outer);
    return out;
}

/* SwiGLU: w2(silu(w1 x) * w3 x), silu(a) = a sigmoid(a). Shazeer, 2020. */
static struct mt_tensor *ffn_forward(struct mt_runtime *rt, const struct mt_layer *layer, struct mt_tensor *x)
{
    struct mt_scope outer = mt_scope_enter(rt, "ffn", MT_CATEGORY_FFN, "swiglu");
    struct mt_tensor *gate = mt_einsum_linear(rt, "w1", MT_ROLE_SAVED, x, layer->w1);
    struct mt_tensor *sigmoid = mt_sigmoid(rt, MT_ROLE_SAVED, "sigmoid", gate);
    struct mt_tensor *silu = mt_multiply(rt, MT_ROLE_SAVED, "silu", gate, sigmoid);
    MT_RELEASE(rt, sigmoid, gate);
    struct mt_tensor *value = mt_einsum_linear(rt, "w3", MT_ROLE_SAVED, x, layer->w3);
    struct mt_tensor *gated = mt_multiply(rt, MT_ROLE_SAVED, "mul", silu, value);
    MT_RELEASE(rt, value, silu);
    struct mt_tensor *out = mt_einsum_linear(rt, "w2", MT_ROLE_TEMPORARY, gated, layer->w2);
    mt_tensor_release(rt, gated);
    mt_scope_leave(rt, outer);
    return out;
}

/* x + attention(norm x), then that + ffn(norm of that). */
static struct mt_tensor *block_forward(struct mt_runtime *rt, const struct mt_layer *layer, struct mt_tensor *x)
{
    struct mt_tensor *attn_input = norm_forward(rt, "ln1", x, layer->ln1);
    struct mt_tensor *attn_output = mt_attention_layer_forward(rt, &layer->attn, attn_input);
    struct mt_tensor *middle = mt_add(rt, MT_ROLE_SAVED, "add", x, attn_output);
    mt_tensor_release(rt, attn_output);
    struct mt_tensor *ffn_input = norm_forward(rt, "ln2", middle, layer->ln2);
    struct mt_tensor *ffn_output = ffn_forward(rt, layer, ffn_input);
    struct mt_tensor *out = mt_add(rt, MT_ROLE_SAVED, "add", middle, ffn_output);
    MT_RELEASE(rt, ffn_output, attn_input, ffn_input, middle);
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
        struct mt_scope layers_scope = mt_scope_enter_layer(rt, i, MT_CATEGORY_BLOCK, "residual");
        struct mt_tensor *next = block_forward(rt, &model->layers[i], x);
        mt_tensor_release(rt, x);
        x = next;
        mt_scope_leave(rt, layers_scope);
    }
    mt_scope_leave(rt, model_scope);
    struct mt_tensor *normed = norm_forward(rt, "ln_final", x, model->ln_final);
    mt_tensor_release(rt, x);
    struct mt_tensor *logits = mt_einsum_linear(rt, "lm_head", MT_ROLE_SAVED, normed, model->lm_head);
    mt_tensor_release(rt, normed);
    mt_scope_leave(rt, outermost);
    return logits;
}
