#include "model/config.h"

#include "base/checked.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The sizes of the course whose published tables the reference reproduces. */
static const struct mt_model_config models[] = {
    {.name = "small", .vocab = 10000, .d_model = 768, .d_ff = 3072, .layers = 12, .heads = 12},
    {.name = "medium", .vocab = 10000, .d_model = 1024, .d_ff = 4096, .layers = 24, .heads = 16},
    {.name = "large", .vocab = 10000, .d_model = 1280, .d_ff = 5120, .layers = 36, .heads = 20},
    {.name = "xl", .vocab = 10000, .d_model = 1600, .d_ff = 6400, .layers = 48, .heads = 25},
    {.name = "2.7B", .vocab = 10000, .d_model = 2560, .d_ff = 10240, .layers = 32, .heads = 32},
};

const char *const mt_model_names[] = {"small", "medium", "large", "xl", "2.7B", NULL};

enum { MODEL_COUNT = sizeof models / sizeof models[0] };

_Static_assert(sizeof mt_model_names / sizeof mt_model_names[0] == MODEL_COUNT + 1, "one name a model");

mt_status mt_model_config_named(const char *name, struct mt_model_config *out)
{
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        assert(strcmp(models[i].name, mt_model_names[i]) == 0);
        if (strcmp(models[i].name, name) == 0) {
            *out = models[i];
            return MT_OK;
        }
    }
    return mt_fail_unknown("model", name, mt_model_names, MODEL_COUNT);
}

struct mt_training_config mt_training_config_default(void)
{
    return (struct mt_training_config){.model = models[MODEL_COUNT - 1],
                                       .mode = MT_MODE_FWD_BWD,
                                       .batch = 4,
                                       .seq = 256,
                                       .steps = 3,
                                       .parameter_dtype = MT_F32};
}

/* Sets the size, or RoPE, that `key` of a JSON file names. Fails with MT_USAGE if the key is unknown or the value of
 * another type. */
static mt_status set_key(struct mt_model_config *config, const char *path, const char *key, const json_t *value)
{
    enum { ROPE = 5, KEYS };
    static const char *const keys[KEYS] = {"vocab", "d_model", "d_ff", "layers", "heads", [ROPE] = "rope"};
    int64_t *const sizes[ROPE] = {&config->vocab, &config->d_model, &config->d_ff, &config->layers, &config->heads};
    int found = 0;
    while (found < KEYS && strcmp(keys[found], key) != 0)
        found++;
    if (found == KEYS)
        return mt_fail_context(mt_fail_unknown("key", key, keys, KEYS), "%s", path);
    bool is_rope = found == ROPE;
    if (is_rope ? !json_is_boolean(value) : !json_is_integer(value))
        return mt_fail(MT_USAGE, "%s: \"%s\" must be %s", path, key, is_rope ? "true or false" : "a whole number");
    if (is_rope)
        config->rope = json_is_true(value);
    else
        *sizes[found] = json_integer_value(value);
    return MT_OK;
}

mt_status mt_model_config_read(const char *path, struct mt_model_config *out)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL && error.line < 1) /* it could not be read at all */
        return mt_fail(MT_USAGE, "the model's sizes can't be read: %s", error.text);
    if (root == NULL)
        return mt_fail(MT_USAGE, "%s, line %d: %s", path, error.line, error.text);
    mt_status status = MT_OK;
    struct mt_model_config config = *out;
    const char *key;
    json_t *value;
    if (!json_is_object(root))
        status = mt_fail(MT_USAGE, "%s: expected an object with the model's sizes", path);
    json_object_foreach(root, key, value) if (status == MT_OK) status = set_key(&config, path, key, value);
    json_decref(root);
    if (status != MT_OK)
        return status;
    snprintf(config.name, sizeof config.name, "custom");
    *out = config;
    return MT_OK;
}

static mt_status check_sizes(const struct mt_training_config *config)
{
    const struct mt_model_config *m = &config->model;
    const struct {
        const char *what;
        int64_t value, low, high;
    } ranges[] = {
        {"vocab", m->vocab, 2, 1 << 24},  {"d_model", m->d_model, 1, 1 << 20},  {"d_ff", m->d_ff, 1, 1 << 22},
        {"layers", m->layers, 1, 4096},   {"heads", m->heads, 1, 1 << 16},      {"batch", config->batch, 1, 1 << 20},
        {"seq", config->seq, 1, 1 << 24}, {"steps", config->steps, 1, 1000000}, {"warmup", config->warmup, 0, 1000000}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return mt_fail(MT_USAGE, "%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, ranges[i].what,
                           ranges[i].value, ranges[i].low, ranges[i].high);
    }
    return MT_OK;
}

/* Checks that the largest tensors fit into 63 bits: the scores (B,H,T,T), the logits (B,T,V), the gate (B,T,F) and
 * the stream (B,T,C), of 8 bytes an element. */
static mt_status check_products(const struct mt_training_config *config)
{
    const struct mt_model_config *m = &config->model;
    const int64_t widest[] = {m->heads * config->seq, m->vocab, m->d_ff, m->d_model};
    for (size_t i = 0; i < sizeof widest / sizeof widest[0]; i++) {
        uint64_t bytes = 8;
        if (!mt_checked_mul(bytes, (uint64_t)config->batch, &bytes) ||
            !mt_checked_mul(bytes, (uint64_t)config->seq, &bytes) ||
            !mt_checked_mul(bytes, (uint64_t)widest[i], &bytes) || bytes > INT64_MAX)
            return mt_fail(MT_USAGE, "batch %" PRId64 " with seq %" PRId64 ": a tensor would not fit into 63 bits",
                           config->batch, config->seq);
    }
    return MT_OK;
}

/* Kernels hold a row of a head in registers, in pieces of 8. */
enum { LEAST_FEATURES = 16, FEATURE_PIECE = 8 };

bool mt_attention_takes_flash(const struct mt_model_config *m)
{
    int64_t features = m->heads > 0 ? m->d_model / m->heads : 0;
    return features >= LEAST_FEATURES && features <= MTK_MOST_HEAD_FEATURES && features % FEATURE_PIECE == 0;
}

static mt_status check_flash(const struct mt_model_config *m)
{
    if (mt_attention_takes_flash(m))
        return MT_OK;
    return mt_fail(MT_USAGE,
                   "flash attention takes heads of %d to %d features, in eights; d_model / heads = %" PRId64
                   " / %" PRId64 " = %" PRId64,
                   LEAST_FEATURES, MTK_MOST_HEAD_FEATURES, m->d_model, m->heads, m->d_model / m->heads);
}

/* Checks that settings do not exclude each other. */
static mt_status check_combinations(const struct mt_training_config *config)
{
    bool is_fused = config->implementation == MT_IMPLEMENTATION_FUSED;
    bool updates_after = config->optimizer_in_backward == MT_OPTIMIZER_IN_BACKWARD_OFF;
    const struct {
        bool is_excluded;
        const char *text;
    } rules[] = {
        {!is_fused && config->autocast && config->weight_cast != MT_WEIGHT_CAST_REGION,
         "impl eager only has weight-cast region; impl fused has layer and persistent, too"},
        {is_fused && config->attention != MT_ATTENTION_WEIGHTS && config->attention != MT_ATTENTION_FLASH,
         "impl fused only has attention weights and flash; impl eager has custom and softmax, too"},
        {!is_fused && config->checkpoint != MT_CHECKPOINT_OFF,
         "impl eager only has checkpoint off; impl fused has block, too"},
        {!is_fused && !updates_after,
         "impl eager only has optimizer-in-backward off; impl fused has on and beside, too"},
        {config->cuda_graph && !updates_after,
         "a graph repeats the same numbers, and the step size of an update changes with each step: "
         "cuda-graph on needs optimizer-in-backward off"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].is_excluded)
            return mt_fail(MT_USAGE, "%s", rules[i].text);
    return MT_OK;
}

mt_status mt_training_config_check(const struct mt_training_config *config)
{
    const struct mt_model_config *m = &config->model;
    mt_status status = check_sizes(config);
    if (status == MT_OK)
        status = check_products(config);
    if (status != MT_OK)
        return status;
    assert(m->heads > 0);
    if (m->d_model % m->heads != 0)
        return mt_fail(MT_USAGE, "%" PRId64 " heads do not divide d_model %" PRId64, m->heads, m->d_model);
    if (m->rope && m->d_model / m->heads % 2 != 0)
        return mt_fail(MT_USAGE, "RoPE rotates pairs; d_model / heads = %" PRId64 " is odd", m->d_model / m->heads);
    if (config->attention == MT_ATTENTION_FLASH)
        status = check_flash(m);
    if (status == MT_OK)
        status = check_combinations(config);
    if (status != MT_OK)
        return status;
    if (config->data == MT_DATA_FILE && m->vocab < 256)
        return mt_fail(MT_USAGE, "the bytes of a file need a vocabulary of 256; this model has %" PRId64, m->vocab);
    if (config->parameter_dtype != MT_F32 && config->parameter_dtype != MT_F64)
        return mt_fail(MT_USAGE, "parameters are fp32 or fp64, not %s", mt_dtype_name(config->parameter_dtype));
    if (config->autocast && config->parameter_dtype != MT_F32)
        return mt_fail(MT_USAGE, "autocast starts from fp32 parameters, not %s",
                       mt_dtype_name(config->parameter_dtype));
    return MT_OK;
}

uint64_t mt_model_parameter_count(const struct mt_model_config *m)
{
    uint64_t C = (uint64_t)m->d_model, F = (uint64_t)m->d_ff, V = (uint64_t)m->vocab;
    return 2 * V * C + (uint64_t)m->layers * (4 * C * C + 3 * C * F + 2 * C) + C;
}
