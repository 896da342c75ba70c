/* PyTorch's rules, in its own terms: sizes are multiples of ROUNDING; blocks of up to SMALL_BYTES are in segments of their
 * own, where all that is left over is split off; of larger ones a rest of up to SMALL_BYTES stays with its block. */
#include "trace/import/torch_settings.h"

#include <inttypes.h>
#include <string.h>

enum { ROUNDING = 512, SMALL_BYTES = 1 << 20, LARGE_BUFFER_BYTES = 20 << 20, MOST_DIVISIONS = 64 };

static const struct mt_value *get(const struct mt_value *dict, const char *name)
{
    struct mt_value_key key = {.name = name, .length = (uint32_t)strlen(name)};
    return mt_value_get(dict, &key);
}

/* -1, which PyTorch writes for no limit, is none. */
static uint64_t read_max_split(const struct mt_value *settings)
{
    int64_t bytes;
    if (!mt_value_integer(get(settings, "max_split_size"), &bytes) || bytes <= LARGE_BUFFER_BYTES)
        return UINT64_MAX;
    return (uint64_t)bytes;
}

/* The interval's name is where it begins, in MiB. */
static uint32_t read_divisions(const struct mt_value *by_interval, int interval)
{
    struct mt_text name = {0};
    int64_t divisions;
    mt_text_add(&name, "%d", 1 << interval);
    bool is_said = mt_value_integer(get(by_interval, mt_text_get(&name)), &divisions);
    mt_text_release(&name);
    if (!is_said || divisions < 2 || divisions > MOST_DIVISIONS || (divisions & (divisions - 1)) != 0)
        return 0;
    return (uint32_t)divisions;
}

static double read_share(const struct mt_value *value)
{
    return value->kind == MT_VALUE_REAL && value->real > 0 && value->real < 1 ? value->real : 0;
}

void mt_torch_settings_read(const struct mt_value *root, struct mt_torch_settings *out)
{
    const struct mt_value *settings = get(root, "allocator_settings"),
                          *expandable = get(settings, "expandable_segments"),
                          *by_interval = get(settings, "roundup_power2_divisions");
    *out = (struct mt_torch_settings){.is_known = get(settings, "max_split_size")->kind == MT_VALUE_INTEGER,
                                      .max_split_bytes = read_max_split(settings),
                                      .gc_threshold = read_share(get(settings, "garbage_collection_threshold")),
                                      .is_expandable = expandable->kind == MT_VALUE_BOOL && expandable->integer != 0,
                                      .configuration = mt_value_text(get(settings, "PYTORCH_CUDA_ALLOC_CONF"))};
    for (int i = 0; i < MT_TORCH_INTERVALS; i++)
        out->divisions[i] = read_divisions(by_interval, i);
}

static uint32_t divisions_of(const struct mt_torch_settings *settings, uint64_t bytes)
{
    enum { FIRST_LOG = 20 };
    int log = 63 - __builtin_clzll(bytes), interval = log > FIRST_LOG ? log - FIRST_LOG : 0;
    return settings->divisions[interval < MT_TORCH_INTERVALS ? interval : MT_TORCH_INTERVALS - 1];
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

uint64_t mt_torch_settings_round(const struct mt_torch_settings *settings, uint64_t bytes)
{
    if (bytes < ROUNDING)
        return ROUNDING;
    uint64_t divisions = divisions_of(settings, bytes), power = UINT64_C(1) << (63 - __builtin_clzll(bytes));
    if (divisions > 1 && bytes > ROUNDING * divisions)
        return round_up(bytes, power / divisions);
    return round_up(bytes, ROUNDING);
}

/* What is never split only takes pieces that are little larger: a rest beyond that is no part of it. */
bool mt_torch_settings_split(const struct mt_torch_settings *settings, uint64_t rounded_bytes, uint64_t rest_bytes)
{
    if (rounded_bytes <= SMALL_BYTES || settings->is_expandable)
        return rest_bytes >= ROUNDING;
    if (rounded_bytes >= settings->max_split_bytes)
        return rest_bytes >= LARGE_BUFFER_BYTES;
    return rest_bytes > SMALL_BYTES;
}

bool mt_torch_settings_is_uniform(const struct mt_torch_settings *settings)
{
    for (int i = 1; i < MT_TORCH_INTERVALS; i++)
        if (settings->divisions[i] != settings->divisions[0])
            return false;
    return true;
}

void mt_torch_settings_format(const struct mt_torch_settings *settings, struct mt_text *out)
{
    mt_text_add(out, "policy=torch");
    if (settings->max_split_bytes != UINT64_MAX)
        mt_text_add(out, ",max_split=%" PRIu64, settings->max_split_bytes);
    if (settings->divisions[0] != 0 && mt_torch_settings_is_uniform(settings))
        mt_text_add(out, ",roundup_power2_divisions=%" PRIu32, settings->divisions[0]);
    if (settings->gc_threshold > 0)
        mt_text_add(out, ",gc_threshold=%.6g", settings->gc_threshold);
}
