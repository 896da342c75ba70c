#include "producers/model/config.h"

#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
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
                                       .loss_slices = 1,
                                       .parameter_dtype = MT_F32};
}

/* The keys of a file of sizes. All but the last are required. */
enum { KEY_ROPE = 5, KEY_COUNT };
static const char *const keys[KEY_COUNT] = {"vocab", "d_model", "d_ff", "layers", "heads", [KEY_ROPE] = "rope"};

/* Sets the size, or RoPE, that `key` of a JSON file names. Fails with MT_USAGE if the key is unknown or its value has
 * the wrong type. */
static mt_status set_key(struct mt_model_config *config, const char *path, const char *key, const json_t *value)
{
    int64_t *const sizes[KEY_ROPE] = {&config->vocab, &config->d_model, &config->d_ff, &config->layers, &config->heads};
    int found = 0;
    while (found < KEY_COUNT && strcmp(keys[found], key) != 0)
        found++;
    if (found == KEY_COUNT)
        return mt_fail_context(mt_fail_unknown("key", key, keys, KEY_COUNT), "%s", path);
    bool is_rope = found == KEY_ROPE;
    if (is_rope ? !json_is_boolean(value) : !json_is_integer(value))
        return mt_fail(MT_USAGE, "%s: \"%s\" must be %s", path, key, is_rope ? "true or false" : "a whole number");
    if (is_rope)
        config->rope = json_is_true(value);
    else
        *sizes[found] = json_integer_value(value);
    return MT_OK;
}

/* Fails with MT_USAGE if the file lacks sizes. The message lists them and shows a complete example. */
static mt_status check_complete(const char *path, const json_t *root)
{
    const struct mt_model_config *like = &models[0];
    char missing[64] = "";
    for (int i = 0; i < KEY_ROPE; i++)
        if (json_object_get(root, keys[i]) == NULL)
            sprintf(missing + strlen(missing), "%s%s", missing[0] != '\0' ? ", " : "", keys[i]);
    if (missing[0] == '\0')
        return MT_OK;
    return mt_fail(MT_USAGE,
                   "%s lacks %s: a file names all sizes, as {\"vocab\": %" PRId64 ", \"d_model\": %" PRId64
                   ", \"d_ff\": %" PRId64 ", \"layers\": %" PRId64 ", \"heads\": %" PRId64
                   "} does, the model %s; \"rope\": true may be added",
                   path, missing, like->vocab, like->d_model, like->d_ff, like->layers, like->heads, like->name);
}

/* Reads the sizes from the root of a file. */
static mt_status read_keys(const char *path, json_t *root, struct mt_model_config *config)
{
    const char *key;
    json_t *value;
    if (!json_is_object(root))
        return mt_fail(MT_USAGE, "%s: expected an object with the model's sizes", path);
    json_object_foreach(root, key, value) MT_TRY(set_key(config, path, key, value));
    return check_complete(path, root);
}

mt_status mt_model_config_read(const char *path, struct mt_model_config *out)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL && error.line < 1) /* the file could not be read at all */
        return mt_fail(MT_USAGE, "the model's sizes can't be read: %s", error.text);
    if (root == NULL)
        return mt_fail(MT_USAGE, "%s, line %d: %s", path, error.line, error.text);
    struct mt_model_config config = {.name = "custom"};
    mt_status status = read_keys(path, root, &config);
    json_decref(root);
    if (status == MT_OK)
        *out = config;
    return status;
}

uint64_t mt_model_parameter_count(const struct mt_model_config *m)
{
    uint64_t C = (uint64_t)m->d_model, F = (uint64_t)m->d_ff, V = (uint64_t)m->vocab;
    return 2 * V * C + (uint64_t)m->layers * (4 * C * C + 3 * C * F + 2 * C) + C;
}
