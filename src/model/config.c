#include "model/config.h"

#include "base/text.h"

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

/* Returns the field of a key of the JSON file, NULL for a key that is unknown. */
static int64_t *size_by_key(struct mt_model_config *config, const char *key)
{
    const struct {
        const char *key;
        int64_t *size;
    } sizes[] = {{"vocab", &config->vocab},
                 {"d_model", &config->d_model},
                 {"d_ff", &config->d_ff},
                 {"layers", &config->layers},
                 {"heads", &config->heads}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (strcmp(sizes[i].key, key) == 0)
            return sizes[i].size;
    return NULL;
}

static mt_status set_key(struct mt_model_config *config, const char *path, const char *key, const json_t *value)
{
    static const char *const keys[] = {"vocab", "d_model", "d_ff", "layers", "heads", "rope"};
    int64_t *size = size_by_key(config, key);
    if (size == NULL && strcmp(key, "rope") != 0) {
        mt_status status = mt_fail_unknown("key", key, keys, sizeof keys / sizeof keys[0]);
        return mt_fail_context(status, "%s", path);
    }
    if (size == NULL ? !json_is_boolean(value) : !json_is_integer(value))
        return mt_fail(MT_USAGE, "%s: \"%s\" must be %s", path, key, size == NULL ? "true or false" : "a whole number");
    if (size == NULL)
        config->rope = json_is_true(value);
    else
        *size = json_integer_value(value);
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

uint64_t mt_model_parameter_count(const struct mt_model_config *m)
{
    uint64_t C = (uint64_t)m->d_model, F = (uint64_t)m->d_ff, V = (uint64_t)m->vocab;
    return 2 * V * C + (uint64_t)m->layers * (4 * C * C + 3 * C * F + 2 * C) + C;
}
