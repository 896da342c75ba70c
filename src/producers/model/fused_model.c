/* The fused model's parameters, and the model as an implementation of the training run's table. Parameters are
 * allocated, initialized part by part with the reference model's values, and released. */
#include "producers/model/fused_model.h"

#include "base/memory.h"
#include "producers/model/ops.h"

#include <assert.h>
#include <stdlib.h>

enum { PARTS_PER_LAYER = 9, OUTSIDE = 3 };

/* A model under construction. */
struct builder {
    struct mt_runtime *rt;
    const struct mt_training_config *config;
    struct mt_fused_model *model;
};

/* A part of a weight: its module and number in the reference model, and its rows. */
struct part {
    const char *module;
    uint64_t number;
    int64_t rows; /* 0: a norm */
};

struct mt_tensor *mt_fused_part_view(struct mt_runtime *rt, const struct mt_fused_part *part, struct mt_tensor *of)
{
    if (of == NULL)
        return NULL;
    int64_t columns = of->shape[of->dims - 1];
    assert(part->first_row + part->rows <= (of->dims == 1 ? 1 : of->shape[0]));
    if (of->dims == 1)
        return mt_tensor_view(rt, of, 1, &columns, (const int64_t[]){1}, 0);
    return mt_tensor_view(rt, of, 2, (const int64_t[]){part->rows, columns}, (const int64_t[]){columns, 1},
                          part->first_row * columns);
}

/* Adds the part of `weight` that begins at `row`, and draws its values. */
static void add_part(struct builder *builder, const struct mt_fused_weight *weight, const struct part *from,
                     mt_parameter_kind kind, int64_t row)
{
    struct mt_runtime *rt = builder->rt;
    struct mt_fused_part *part = &builder->model->parts[builder->model->part_count++];
    *part = (struct mt_fused_part){.weight = weight, .first_row = row, .rows = from->rows > 0 ? from->rows : 1};
    mt_parameter_name(weight->parameter.layer, from->module, part->name);
    struct mt_tensor *values = mt_fused_part_view(rt, part, weight->parameter.value);
    mt_parameter_draw(rt, builder->config, kind, from->number, values);
    mt_tensor_release(rt, values);
}

/* Allocates the next weight, of `count` parts, each below the one before. */
static struct mt_fused_weight *add_weight(struct builder *builder, const char *module, mt_parameter_kind kind,
                                          int64_t columns, const struct part *parts, int count)
{
    struct mt_runtime *rt = builder->rt;
    struct mt_fused_weight *weight = &builder->model->weights[builder->model->weight_count++];
    struct mt_scope outer = mt_scope_enter(rt, module, MT_CATEGORY_PARAM, "parameter");
    int64_t rows = 0;
    for (int i = 0; i < count; i++)
        rows += parts[i].rows;
    const int64_t matrix[] = {rows, columns};
    mt_parameter_name(outer.layer, module, weight->parameter.name);
    weight->parameter.span = rt->scope.span;
    weight->parameter.layer = outer.layer;
    weight->parameter.value = mt_tensor_empty(rt, MT_ROLE_PARAMETER, NULL, builder->config->parameter_dtype,
                                              rows == 0 ? 1 : 2, rows == 0 ? &columns : matrix);
    weight->first_part = builder->model->part_count;
    weight->part_count = count;
    for (int64_t i = 0, row = 0; i < count; row += parts[i++].rows)
        add_part(builder, weight, &parts[i], kind, row);
    weight->is_multiplied = kind == MT_PARAMETER_LINEAR;
    if (weight->is_multiplied && builder->config->autocast && weight->parameter.value != NULL &&
        !mt_fused_is_fp8(builder->model, weight) && builder->config->weight_cast == MT_WEIGHT_CAST_PERSISTENT)
        mt_fused_cast_begin(rt, weight);
    mt_scope_leave(rt, outer);
    return weight;
}

static struct mt_fused_weight *add_norm(struct builder *builder, const char *module, uint64_t number)
{
    const struct part whole = {module, number, 0};
    return add_weight(builder, module, MT_PARAMETER_NORM, builder->config->model.d_model, &whole, 1);
}

static struct mt_fused_weight *add_linear(struct builder *builder, const char *module, uint64_t number, int64_t outputs,
                                          int64_t inputs)
{
    const struct part whole = {module, number, outputs};
    return add_weight(builder, module, MT_PARAMETER_LINEAR, inputs, &whole, 1);
}

/* Allocates the weights of a layer. Their numbers in the reference data begin at `first`. */
static void add_layer(struct builder *builder, struct mt_fused_layer *layer, uint64_t first)
{
    int64_t C = builder->config->model.d_model, F = builder->config->model.d_ff;
    const struct part qkv[] = {
        {"attn.q_proj", first + 1, C}, {"attn.k_proj", first + 2, C}, {"attn.v_proj", first + 3, C}};
    const struct part gate_up[] = {{"ffn.w1", first + 6, F}, {"ffn.w3", first + 8, F}};
    layer->ln1 = add_norm(builder, "ln1", first);
    layer->qkv = add_weight(builder, "attn.qkv_proj", MT_PARAMETER_LINEAR, C, qkv, 3);
    layer->output_proj = add_linear(builder, "attn.output_proj", first + 4, C, C);
    layer->ln2 = add_norm(builder, "ln2", first + 5);
    layer->gate_up = add_weight(builder, "ffn.w13", MT_PARAMETER_LINEAR, C, gate_up, 2);
    layer->down = add_linear(builder, "ffn.w2", first + 7, C, F);
}

static void add_layers(struct builder *builder)
{
    struct mt_runtime *rt = builder->rt;
    struct mt_scope outer = mt_scope_enter(rt, "layers", MT_CATEGORY_PARAM, "parameter");
    for (int64_t i = 0; i < builder->config->model.layers; i++) {
        struct mt_scope layers_scope = mt_fused_enter_layer(rt, i);
        add_layer(builder, &builder->model->layers[i], 1 + (uint64_t)i * PARTS_PER_LAYER);
        mt_scope_leave(rt, layers_scope);
    }
    mt_scope_leave(rt, outer);
}

/* Fails with MT_USAGE if the device computes and lacks a kernel of the model, or its card lacks the matrix units. */
static mt_status check_device(const struct mt_device *device, mtk_math math, mt_attention_kind attention)
{
    const struct mtk_table *kernels = device->kernels;
    mt_status status = mt_ops_fused_check(device);
    if (status == MT_OK && math == MTK_MATH_FP8)
        status = mt_op_fp8_check(device);
    if (status != MT_OK || kernels == NULL)
        return status;
    bool has_flash = kernels->attention != NULL && kernels->attention_grad != NULL;
    bool has_weights = kernels->softmax != NULL && kernels->softmax_grad != NULL;
    if (attention == MT_ATTENTION_FLASH && !has_flash)
        return mt_fail(MT_USAGE, "the kernels of %s have no flash attention; use attention weights", device->name);
    if (attention == MT_ATTENTION_WEIGHTS && !has_weights)
        return mt_fail(MT_USAGE, "the kernels of %s have no softmax of one pass; use attention flash", device->name);
    return MT_OK;
}

void mt_fused_create(struct mt_runtime *rt, const struct mt_training_config *config, struct mt_fused_model *out)
{
    const struct mt_model_config *model = &config->model;
    size_t layers = (size_t)model->layers;
    uint64_t after_layers = 1 + (uint64_t)model->layers * PARTS_PER_LAYER;
    *out = (struct mt_fused_model){
        .config = config,
        .compute = config->autocast ? MT_BF16 : config->parameter_dtype,
        .weights = mt_host_alloc((layers * MT_FUSED_WEIGHTS_PER_LAYER + OUTSIDE) * sizeof *out->weights),
        .parts = mt_host_alloc((layers * PARTS_PER_LAYER + OUTSIDE) * sizeof *out->parts),
        .layers = mt_host_alloc(layers * sizeof *out->layers)};
    rt->choosing = MTK_CHOOSING_MEASURES;
    if (rt->status == MT_OK)
        mt_runtime_fail(rt, check_device(rt->device, config->math, config->attention));
    struct builder builder = {.rt = rt, .config = config, .model = out};
    const struct part embeddings = {"token_embeddings", 0, model->vocab};
    struct mt_scope outer = mt_scope_enter(rt, "model", MT_CATEGORY_PARAM, "parameter");
    out->token_embeddings =
        add_weight(&builder, "token_embeddings", MT_PARAMETER_EMBEDDING, model->d_model, &embeddings, 1);
    add_layers(&builder);
    out->ln_final = add_norm(&builder, "ln_final", after_layers);
    out->lm_head = add_linear(&builder, "lm_head", after_layers + 1, model->vocab, model->d_model);
    assert(out->weight_count == model->layers * MT_FUSED_WEIGHTS_PER_LAYER + OUTSIDE);
    assert(out->part_count == model->layers * PARTS_PER_LAYER + OUTSIDE);
    mt_scope_leave(rt, outer);
}

void mt_fused_destroy(struct mt_runtime *rt, struct mt_fused_model *model)
{
    mt_fused_end_step(rt, model);
    for (int64_t i = 0; i < model->weight_count; i++) {
        struct mt_fused_weight *weight = &model->weights[i];
        mt_parameter_release_moments(rt, &weight->parameter);
        MT_RELEASE(rt, weight->parameter.grad, weight->cast, weight->parameter.value);
    }
    free(model->weights);
    free(model->parts);
    free(model->layers);
}

static void *create(struct mt_runtime *rt, const struct mt_training_config *config)
{
    struct mt_fused_model *model = mt_host_alloc(sizeof *model);
    mt_fused_create(rt, config, model);
    return model;
}

static void destroy(struct mt_runtime *rt, void *model)
{
    mt_fused_destroy(rt, model);
    free(model);
}

static void forward(struct mt_runtime *rt, void *model, struct mt_tensor *inputs, struct mt_tensor *targets)
{
    mt_fused_forward(rt, model, inputs);
    if (targets == NULL)
        return;
    mt_runtime_phase(rt, MT_PHASE_LOSS);
    mt_fused_loss(rt, model, targets);
}

static const struct mt_tensor *loss(const void *model)
{
    return ((const struct mt_fused_model *)model)->loss;
}

static uint64_t gradient_places(const void *model)
{
    const struct mt_fused_model *fused = model;
    uint64_t sum = 0;
    for (int64_t i = 0; i < fused->weight_count; i++)
        sum = mt_parameter_fold_place(sum, &fused->weights[i].parameter);
    return sum;
}

const struct mt_implementation mt_fused_implementation = {
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .loss = loss,
    .backward = mt_fused_backward,
    .update = mt_fused_update,
    .zero_grad = mt_fused_zero_grad,
    .gradient_places = gradient_places,
    .end_step = mt_fused_end_step,
};
