/* Parameters, forward and loss of the eager transformer. Parameters are allocated in the order in which the reference
 * registers its modules. In forward, a tensor is released where its name in the reference program goes out of
 * scope. */
#include "producers/model/transformer.h"

#include "base/memory.h"
#include "producers/model/functions.h"
#include "producers/model/use.h"

#include <assert.h>
#include <stdlib.h>

enum { PARAMETERS_PER_LAYER = 9, PARAMETERS_OUTSIDE = 3 };

static int64_t parameter_count(const struct mt_model_config *model)
{
    return model->layers * PARAMETERS_PER_LAYER + PARAMETERS_OUTSIDE;
}

/* A model under construction. */
struct builder {
    struct mt_runtime *rt;
    const struct mt_training_config *config;
    struct mt_transformer *model;
};

/* Allocates the next parameter of the list. `number` counts in the order of the reference data. */
static struct mt_parameter *add_parameter(struct builder *builder, const char *module, uint64_t number, int64_t rows,
                                          int64_t columns, mt_parameter_kind kind)
{
    struct mt_parameter *parameter = &builder->model->parameters[builder->model->parameter_count++];
    assert(builder->model->parameter_count <= parameter_count(&builder->config->model));
    const struct mt_parameter_shape shape = {kind, number, rows, columns};
    mt_parameter_create(builder->rt, builder->config, module, &shape, parameter);
    return parameter;
}

static struct mt_parameter *add_linear(struct builder *builder, const char *module, uint64_t number, int64_t outputs,
                                       int64_t inputs)
{
    return add_parameter(builder, module, number, outputs, inputs, MT_PARAMETER_LINEAR);
}

static struct mt_parameter *add_norm(struct builder *builder, const char *module, uint64_t number)
{
    return add_parameter(builder, module, number, 0, builder->config->model.d_model, MT_PARAMETER_NORM);
}

/* Allocates the positions 0 … seq-1 that the reference keeps in each attention module. */
static struct mt_tensor *add_positions(struct builder *builder)
{
    struct mt_runtime *rt = builder->rt;
    int64_t length = builder->config->seq;
    struct mt_scope outer = mt_scope_enter(rt, "attn", MT_CATEGORY_ATTN, "positions");
    struct mt_tensor *positions = mt_tensor_empty(rt, MT_ROLE_INPUT, NULL, MT_I64, 1, &length);
    mt_scope_leave(rt, outer);
    if (positions == NULL)
        return NULL;
    int64_t *values = mt_host_alloc((size_t)length * sizeof *values);
    for (int64_t i = 0; i < length; i++)
        values[i] = i;
    mt_use_write(rt, positions);
    mt_runtime_fail(
        rt, mt_device_write(rt->device, positions->address, values, (uint64_t)length * sizeof *values, rt->stream));
    free(values);
    return positions;
}

static void add_layer(struct builder *builder, struct mt_layer *layer, uint64_t first)
{
    const struct mt_model_config *model = &builder->config->model;
    int64_t C = model->d_model, F = model->d_ff;
    layer->attn =
        (struct mt_attention_layer){.heads = model->heads, .rope = model->rope, .kind = builder->config->attention};
    layer->attn.q_proj = add_linear(builder, "attn.q_proj", first + 1, C, C);
    layer->attn.k_proj = add_linear(builder, "attn.k_proj", first + 2, C, C);
    layer->attn.v_proj = add_linear(builder, "attn.v_proj", first + 3, C, C);
    layer->attn.output_proj = add_linear(builder, "attn.output_proj", first + 4, C, C);
    layer->positions = add_positions(builder);
    layer->w1 = add_linear(builder, "ffn.w1", first + 6, F, C);
    layer->w2 = add_linear(builder, "ffn.w2", first + 7, C, F);
    layer->w3 = add_linear(builder, "ffn.w3", first + 8, F, C);
    layer->ln1 = add_norm(builder, "ln1", first);
    layer->ln2 = add_norm(builder, "ln2", first + 5);
}

static void add_layers(struct builder *builder)
{
    struct mt_runtime *rt = builder->rt;
    struct mt_scope outer = mt_scope_enter(rt, "layers", MT_CATEGORY_PARAM, "parameter");
    for (int64_t i = 0; i < builder->config->model.layers; i++) {
        struct mt_scope layers_scope = mt_scope_enter_layer(rt, i, MT_CATEGORY_PARAM, "parameter");
        add_layer(builder, &builder->model->layers[i], 1 + (uint64_t)i * PARAMETERS_PER_LAYER);
        mt_scope_leave(rt, layers_scope);
    }
    mt_scope_leave(rt, outer);
}

void mt_transformer_create(struct mt_runtime *rt, const struct mt_training_config *config, struct mt_transformer *out)
{
    const struct mt_model_config *model = &config->model;
    uint64_t after_layers = 1 + (uint64_t)model->layers * PARAMETERS_PER_LAYER;
    *out =
        (struct mt_transformer){.config = *model,
                                .parameters = mt_host_alloc((size_t)parameter_count(model) * sizeof *out->parameters),
                                .layers = mt_host_alloc((size_t)model->layers * sizeof *out->layers)};
    struct builder builder = {.rt = rt, .config = config, .model = out};
    struct mt_scope outer = mt_scope_enter(rt, "model", MT_CATEGORY_PARAM, "parameter");
    out->token_embeddings =
        add_parameter(&builder, "token_embeddings", 0, model->vocab, model->d_model, MT_PARAMETER_EMBEDDING);
    add_layers(&builder);
    out->ln_final = add_norm(&builder, "ln_final", after_layers);
    out->lm_head = add_linear(&builder, "lm_head", after_layers + 1, model->vocab, model->d_model);
    assert(out->parameter_count == parameter_count(model));
    mt_scope_leave(rt, outer);
}

void mt_transformer_destroy(struct mt_runtime *rt, struct mt_transformer *model)
{
    for (int64_t i = 0; i < model->parameter_count; i++)
        mt_parameter_release(rt, &model->parameters[i]);
    for (int64_t i = 0; i < model->config.layers; i++)
        mt_tensor_release(rt, model->layers[i].positions);
    free(model->parameters);
    free(model->layers);
}

/* Computes RMSNorm, x / sqrt(mean(x²) + eps) * weight, over the last dimension, which is C. Zhang, Sennrich, 2019. */
static struct mt_tensor *norm_forward(struct mt_runtime *rt, const char *name, struct mt_tensor *x,
                                      const struct mt_parameter *weight)
{
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_NORM, "norm");
    struct mt_tensor *square = mt_power(rt, MT_ROLE_TEMPORARY, "pow", x, 2);
    struct mt_tensor *mean = mt_mean_last(rt, MT_ROLE_TEMPORARY, "mean", square);
    mt_tensor_release(rt, square);
    struct mt_tensor *shifted = mt_add_scalar(rt, MT_ROLE_TEMPORARY, "add", mean, MT_NORM_EPSILON);
    mt_tensor_release(rt, mean);
    struct mt_tensor *scale = mt_rsqrt(rt, MT_ROLE_ACTIVATION, "rsqrt", shifted);
    mt_tensor_release(rt, shifted);
    struct mt_tensor *unit = mt_multiply(rt, MT_ROLE_ACTIVATION, "mul", x, scale);
    struct mt_tensor *out = mt_multiply(rt, mt_operand_role(rt), "weight", unit, weight->value);
    MT_RELEASE(rt, unit, scale);
    mt_scope_leave(rt, outer);
    return out;
}

/* Computes SwiGLU, w2(silu(w1 x) * w3 x), silu(a) = a sigmoid(a). Shazeer, 2020. */
static struct mt_tensor *ffn_forward(struct mt_runtime *rt, const struct mt_layer *layer, struct mt_tensor *x)
{
    struct mt_scope outer = mt_scope_enter(rt, "ffn", MT_CATEGORY_FFN, "swiglu");
    struct mt_tensor *gate = mt_einsum_linear(rt, "w1", MT_ROLE_ACTIVATION, x, layer->w1);
    struct mt_tensor *sigmoid = mt_sigmoid(rt, MT_ROLE_ACTIVATION, "sigmoid", gate);
    struct mt_tensor *silu = mt_multiply(rt, MT_ROLE_ACTIVATION, "silu", gate, sigmoid);
    MT_RELEASE(rt, sigmoid, gate);
    struct mt_tensor *value = mt_einsum_linear(rt, "w3", MT_ROLE_ACTIVATION, x, layer->w3);
    struct mt_tensor *gated = mt_multiply(rt, MT_ROLE_ACTIVATION, "mul", silu, value);
    MT_RELEASE(rt, value, silu);
    struct mt_tensor *out = mt_einsum_linear(rt, "w2", MT_ROLE_TEMPORARY, gated, layer->w2);
    mt_tensor_release(rt, gated);
    mt_scope_leave(rt, outer);
    return out;
}

/* Computes y = x + attention(norm x), then y + ffn(norm y). */
static struct mt_tensor *block_forward(struct mt_runtime *rt, const struct mt_layer *layer, struct mt_tensor *x)
{
    struct mt_tensor *attn_input = norm_forward(rt, "ln1", x, layer->ln1);
    struct mt_tensor *attn_output = mt_attention_layer_forward(rt, &layer->attn, attn_input);
    struct mt_tensor *middle = mt_add(rt, MT_ROLE_ACTIVATION, "add", x, attn_output);
    mt_tensor_release(rt, attn_output);
    struct mt_tensor *ffn_input = norm_forward(rt, "ln2", middle, layer->ln2);
    struct mt_tensor *ffn_output = ffn_forward(rt, layer, ffn_input);
    struct mt_tensor *out = mt_add(rt, MT_ROLE_ACTIVATION, "add", middle, ffn_output);
    MT_RELEASE(rt, ffn_output, attn_input, ffn_input, middle);
    return out;
}

static struct mt_tensor *embedding_forward(struct mt_runtime *rt, const struct mt_parameter *table,
                                           struct mt_tensor *tokens)
{
    struct mt_scope outer = mt_scope_enter(rt, "token_embeddings", MT_CATEGORY_EMBED, "embedding");
    struct mt_tensor *x = mt_embedding(rt, MT_ROLE_ACTIVATION, NULL, table->value, tokens);
    mt_scope_leave(rt, outer);
    return x;
}

struct mt_tensor *mt_transformer_forward(struct mt_runtime *rt, struct mt_transformer *model, struct mt_tensor *tokens)
{
    assert(tokens == NULL || (tokens->dims == 2 && tokens->dtype == MT_I64));
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
    struct mt_tensor *logits = mt_einsum_linear(rt, "lm_head", MT_ROLE_ACTIVATION, normed, model->lm_head);
    mt_tensor_release(rt, normed);
    mt_scope_leave(rt, outermost);
    return logits;
}

/* Computes ln sum e^(logits - max) - (logits - max)[target], averaged over positions. */
struct mt_tensor *mt_cross_entropy(struct mt_runtime *rt, struct mt_tensor *logits, struct mt_tensor *targets)
{
    struct mt_scope outer = mt_scope_enter(rt, "loss", MT_CATEGORY_LOSS, "cross_entropy");
    struct mt_tensor *maximum = mt_max_last(rt, MT_ROLE_ACTIVATION, "max", logits);
    struct mt_tensor *shifted = mt_subtract(rt, MT_ROLE_ACTIVATION, "sub", logits, maximum);
    mt_tensor_release(rt, maximum);
    struct mt_tensor *log_sum = mt_logsumexp(rt, MT_ROLE_ACTIVATION, "logsumexp", shifted);
    struct mt_tensor *chosen = mt_gather(rt, MT_ROLE_TEMPORARY, "gather", shifted, targets);
    struct mt_tensor *each = mt_subtract(rt, MT_ROLE_TEMPORARY, "nll", log_sum, chosen);
    struct mt_tensor *loss = mt_mean_all(rt, MT_ROLE_TEMPORARY, "mean", each);
    MT_RELEASE(rt, each, chosen, log_sum, shifted);
    mt_scope_leave(rt, outer);
    return loss;
}
