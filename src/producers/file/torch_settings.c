/* PyTorch's rules: sizes are multiples of ROUNDING. Blocks of up to SMALL_BYTES are in separate segments, where
 * every remainder is split off. A larger block keeps a remainder of up to SMALL_BYTES. */
#include "producers/file/torch_settings.h"

#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum { ROUNDING = 512, SMALL_BYTES = 1 << 20, LARGE_BUFFER_BYTES = 20 << 20, MOST_DIVISIONS = 64 };

/* PyTorch writes -1 for no limit. */
static uint64_t read_max_split(const struct mt_value *settings)
{
    int64_t bytes;
    if (!mt_value_integer(mt_value_find(settings, "max_split_size"), &bytes) || bytes <= LARGE_BUFFER_BYTES)
        return UINT64_MAX;
    return (uint64_t)bytes;
}

/* The name of an interval is its lower bound in MiB. */
static uint32_t read_divisions(const struct mt_value *by_interval, int interval)
{
    struct mt_text name = {0};
    int64_t divisions;
    mt_text_add(&name, "%d", 1 << interval);
    bool is_said = mt_value_integer(mt_value_find(by_interval, mt_text_get(&name)), &divisions);
    mt_text_release(&name);
    if (!is_said || divisions < 2 || divisions > MOST_DIVISIONS || (divisions & (divisions - 1)) != 0)
        return 0;
    return (uint32_t)divisions;
}

static double read_share(const struct mt_value *value)
{
    return value->kind == MT_VALUE_REAL && value->real > 0 && value->real < 1 ? value->real : 0;
}

static mt_torch_overflow read_overflow(const struct mt_value *value)
{
    if (value->kind != MT_VALUE_BOOL)
        return MT_TORCH_OVERFLOW_UNSAID;
    return value->integer != 0 ? MT_TORCH_OVERFLOWED : MT_TORCH_NOT_OVERFLOWED;
}

void mt_torch_settings_read(const struct mt_value *root, struct mt_torch_settings *out)
{
    const struct mt_value *settings = mt_value_find(root, "allocator_settings"),
                          *expandable = mt_value_find(settings, "expandable_segments"),
                          *by_interval = mt_value_find(settings, "roundup_power2_divisions");
    *out =
        (struct mt_torch_settings){.is_known = mt_value_find(settings, "max_split_size")->kind == MT_VALUE_INTEGER,
                                   .max_split_bytes = read_max_split(settings),
                                   .gc_threshold = read_share(mt_value_find(settings, "garbage_collection_threshold")),
                                   .overflow = read_overflow(mt_value_find(settings, "trace_alloc_overflowed")),
                                   .is_expandable = expandable->kind == MT_VALUE_BOOL && expandable->integer != 0,
                                   .device = mt_torch_device_find(root),
                                   .configuration = mt_torch_device_configuration(settings)};
    for (int i = 0; i < MT_TORCH_INTERVALS; i++)
        out->divisions[i] = read_divisions(by_interval, i);
}

void mt_torch_settings_of_host(struct mt_torch_settings *out)
{
    *out = (struct mt_torch_settings){.max_split_bytes = UINT64_MAX, .device = MT_TORCH_HOST, .configuration = ""};
}

bool mt_torch_settings_is_pytorch(const struct mt_torch_settings *settings)
{
    return settings->device != MT_TORCH_MLX && settings->device != MT_TORCH_HOST;
}

static uint32_t divisions_of(const struct mt_torch_settings *settings, uint64_t bytes)
{
    enum { FIRST_LOG = 20 };
    int log = 63 - __builtin_clzll(bytes), interval = log > FIRST_LOG ? log - FIRST_LOG : 0;
    return settings->divisions[interval < MT_TORCH_INTERVALS ? interval : MT_TORCH_INTERVALS - 1];
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    assert(unit > 0);
    return (bytes + unit - 1) / unit * unit;
}

uint64_t mt_torch_settings_round(const struct mt_torch_settings *settings, uint64_t bytes)
{
    assert(bytes <= UINT64_C(1) << 62);
    bytes += settings->padding_bytes;
    if (bytes < ROUNDING)
        return ROUNDING;
    uint64_t divisions = divisions_of(settings, bytes), power = UINT64_C(1) << (63 - __builtin_clzll(bytes));
    if (divisions > 1 && bytes > ROUNDING * divisions)
        return round_up(bytes, power / divisions);
    return round_up(bytes, ROUNDING);
}

/* A block that is never split only uses slightly larger pieces, so a longer remainder is not part of it. */
bool mt_torch_settings_split(const struct mt_torch_settings *settings, uint64_t rounded_bytes, uint64_t rest_bytes)
{
    assert(rounded_bytes >= ROUNDING);
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

/* Adds the settings in the syntax of --alloc, "policy=torch,…", without divisions that differ by size. */
static void format(const struct mt_torch_settings *settings, struct mt_text *out)
{
    char share[32];
    mt_text_add(out, "policy=torch");
    if (settings->max_split_bytes != UINT64_MAX)
        mt_text_add(out, ",max_split=%" PRIu64, settings->max_split_bytes);
    if (settings->divisions[0] != 0 && mt_torch_settings_is_uniform(settings))
        mt_text_add(out, ",roundup_power2_divisions=%" PRIu32, settings->divisions[0]);
    mt_write_real(share, sizeof share, 6, settings->gc_threshold);
    if (settings->gc_threshold > 0)
        mt_text_add(out, ",gc_threshold=%s", share);
}

void mt_torch_facts_add(struct mt_torch_facts *facts, const char *name, const char *value)
{
    *MT_HOST_ADD(facts->settings, facts->setting_count) = (struct mt_run_setting){name, value};
}

/* A snapshot of PyTorch has no model and no batch: they stay unknown. */
static void read_pytorch(const struct mt_torch_settings *settings, struct mt_torch_facts *out)
{
    struct mt_text alloc = {0};
    out->device = mt_torch_device_name(settings->device);
    if (!mt_torch_settings_is_pytorch(settings))
        return;
    format(settings, &alloc);
    out->alloc = alloc.data;
    mt_torch_facts_add(out, "alloc", out->alloc);
    if (settings->is_known || settings->is_expandable)
        mt_torch_facts_add(out, "expandable_segments", settings->is_expandable ? "on" : "off");
    if (settings->configuration[0] != '\0')
        mt_torch_facts_add(out, "pytorch_alloc_conf", settings->configuration);
}

/* Reads pairs of texts. Our exports have no other values. */
static void read_own(const struct mt_value *run, struct mt_torch_facts *out)
{
    const struct mt_value *settings = mt_value_find(run, "settings");
    uint32_t count = settings->kind == MT_VALUE_DICT ? mt_value_count(settings) : 0;
    int64_t capacity;
    out->device = mt_value_text(mt_value_find(run, "device"));
    out->name = mt_value_text(mt_value_find(run, "name"));
    out->state = mt_value_text(mt_value_find(run, "state"));
    mt_value_integer(mt_value_find(run, "start_us"), &out->start_us);
    if (mt_value_integer(mt_value_find(run, "capacity_bytes"), &capacity) && capacity > 0)
        out->capacity_bytes = (uint64_t)capacity;
    for (uint32_t i = 0; i < count; i++) {
        const struct mt_value *name = mt_value_key_at(settings, i), *value = mt_value_value_at(settings, i);
        if (mt_value_text(name)[0] != '\0' && value->kind == MT_VALUE_TEXT)
            mt_torch_facts_add(out, mt_value_text(name), mt_value_text(value));
    }
}

void mt_torch_facts_read(const struct mt_value *root, const struct mt_torch_settings *settings,
                         struct mt_torch_facts *out)
{
    const struct mt_value *run = mt_value_find(root, "memtrace");
    *out = (struct mt_torch_facts){.is_own = run->kind == MT_VALUE_DICT, .name = "", .state = ""};
    if (out->is_own)
        read_own(run, out);
    else
        read_pytorch(settings, out);
}

void mt_torch_facts_release(struct mt_torch_facts *facts)
{
    free(facts->settings);
    free(facts->alloc);
    *facts = (struct mt_torch_facts){0};
}
