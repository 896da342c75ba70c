/* A transformer's parameters: taken in the order in which the reference's modules are registered, initialized, and
 * given back. */
#include "base/memory.h"
#include "model/transformer.h"
#include "model/use.h"

#include <stdlib.h>

enum { PARAMETERS_PER_LAYER = 9, PARAMETERS_OUTSIDE = 3 };

/* While a model is being made. */
struct builder {
    struct mt_runtime *rt;
    const struct mt_training_config *config;
    struct mt_transformer *model;
};

/* Takes the next parameter of the list. `number` counts in the order of the reference data. */
static struct mt_parameter *add_parameter(struct builder *builder, const char *module, uint64_t number, int64_t rows,
                                          int64_t columns, mt_parameter_kind kind)
{
    struct mt_parameter *parameter = &builder->model->parameters[builder->model->parameter_count++];
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

/* The positions 0 … seq-1 that the reference keeps in each attention module. */
static struct mt_tensor *add_positions(struct builder *builder)
{
    struct mt_runtime *rt = builder->rt;
    int64_t length = builder->config->seq;
    struct mt_scope outer = mt_scope_enter(rt, "attn", MT_CATEGORY_ATTN, "positions");
    struct mt_tensor *positions = mt_tensor_empty(rt, MT_ROLE_DATA, NULL, MT_I64, 1, &length);
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
    size_t most = (size_t)model->layers * PARAMETERS_PER_LAYER + PARAMETERS_OUTSIDE;
    uint64_t after_layers = 1 + (uint64_t)model->layers * PARAMETERS_PER_LAYER;
    *out = (struct mt_transformer){.config = *model,
                                   .parameters = mt_host_alloc(most * sizeof *out->parameters),
                                   .layers = mt_host_alloc((size_t)model->layers * sizeof *out->layers)};
    struct builder builder = {.rt = rt, .config = config, .model = out};
    struct mt_scope outer = mt_scope_enter(rt, "model", MT_CATEGORY_PARAM, "parameter");
    out->token_embeddings =
        add_parameter(&builder, "token_embeddings", 0, model->vocab, model->d_model, MT_PARAMETER_EMBEDDING);
    add_layers(&builder);
    out->ln_final = add_norm(&builder, "ln_final", after_layers);
    out->lm_head = add_linear(&builder, "lm_head", after_layers + 1, model->vocab, model->d_model);
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
