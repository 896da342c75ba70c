#include "alloc/alloc_settings.h"

#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_SETTING = 255,
    MOST_DIVISIONS = 64,
    LEAST_MAX_SPLIT_BYTES = 20 << 20, /* PyTorch's segments for medium requests, which must stay splittable */
};

static const char *const policy_names[] = {[MT_POLICY_TIGHT] = "tight", [MT_POLICY_TORCH] = "torch"};
static const char *const keys[] = {"policy", "max_split", "roundup_power2_divisions", "gc_threshold",
                                   "expandable_segments"};

enum { POLICY_COUNT = sizeof policy_names / sizeof policy_names[0], KEY_COUNT = sizeof keys / sizeof keys[0] };

const char *mt_policy_name(mt_policy policy)
{
    assert((size_t)policy < POLICY_COUNT);
    return policy_names[policy];
}

static mt_status parse_policy(const char *value, struct mt_alloc_settings *settings)
{
    for (size_t i = 0; i < POLICY_COUNT; i++)
        if (strcmp(value, policy_names[i]) == 0) {
            settings->policy = (mt_policy)i;
            return MT_OK;
        }
    return mt_fail_unknown("allocator policy", value, policy_names, POLICY_COUNT);
}

static mt_status parse_max_split(const char *value, struct mt_alloc_settings *settings)
{
    if (strcmp(value, "off") == 0) {
        settings->max_split_bytes = UINT64_MAX;
        return MT_OK;
    }
    mt_status status = mt_parse_bytes(value, &settings->max_split_bytes);
    if (status != MT_OK)
        return mt_fail_context(status, "max_split");
    if (settings->max_split_bytes > LEAST_MAX_SPLIT_BYTES)
        return MT_OK;
    return mt_fail(MT_USAGE, "max_split=%s: expected more than 20 MiB, or off", value);
}

static mt_status parse_divisions(const char *value, struct mt_alloc_settings *settings)
{
    int64_t divisions;
    MT_TRY(mt_parse_integer("roundup_power2_divisions", value, 0, MOST_DIVISIONS, &divisions));
    if ((divisions & (divisions - 1)) != 0)
        return mt_fail(MT_USAGE, "roundup_power2_divisions=%s: expected a power of two up to %d, or 0 for off", value,
                       MOST_DIVISIONS);
    settings->roundup_power2_divisions = (int)divisions;
    return MT_OK;
}

static mt_status parse_gc_threshold(const char *value, struct mt_alloc_settings *settings)
{
    char *end;
    double share = mt_read_real(value, &end);
    if (end == value || *end != '\0' || !(share >= 0 && share < 1))
        return mt_fail(MT_USAGE, "gc_threshold=%s: expected a share of the capacity from 0 (off) to below 1", value);
    settings->gc_threshold = share;
    return MT_OK;
}

static mt_status parse_expandable(const char *value, struct mt_alloc_settings *settings)
{
    settings->expandable_segments = strcmp(value, "on") == 0;
    if (settings->expandable_segments || strcmp(value, "off") == 0)
        return MT_OK;
    return mt_fail(MT_USAGE, "expandable_segments=%s: expected on or off", value);
}

static mt_status parse_pair(const char *key, const char *value, struct mt_alloc_settings *settings)
{
    static mt_status (*const parsers[KEY_COUNT])(const char *, struct mt_alloc_settings *) = {
        parse_policy, parse_max_split, parse_divisions, parse_gc_threshold, parse_expandable};
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(key, keys[i]) == 0)
            return parsers[i](value, settings);
    return mt_fail_unknown("allocator setting", key, keys, KEY_COUNT);
}

/* Parses one "key=value" of `length` characters at `text`. */
static mt_status parse_item(const char *text, size_t length, struct mt_alloc_settings *settings)
{
    char item[LONGEST_SETTING + 1];
    if (length > LONGEST_SETTING)
        return mt_fail(MT_USAGE, "an allocator setting of %zu characters is too long", length);
    memcpy(item, text, length);
    item[length] = '\0';
    char *equals = strchr(item, '=');
    if (equals == NULL)
        return mt_fail(MT_USAGE, "\"%s\" is not an allocator setting: write key=value, such as policy=torch", item);
    *equals = '\0';
    return parse_pair(item, equals + 1, settings);
}

static bool has_torch_settings(const struct mt_alloc_settings *settings)
{
    return settings->max_split_bytes != UINT64_MAX || settings->roundup_power2_divisions != 0 ||
           settings->gc_threshold > 0 || settings->expandable_segments;
}

struct mt_alloc_settings mt_alloc_settings_of(mt_policy policy)
{
    return (struct mt_alloc_settings){.policy = policy, .max_split_bytes = UINT64_MAX};
}

struct mt_alloc_settings mt_alloc_settings_as_torch(const struct mt_alloc_settings *settings)
{
    return settings->policy == MT_POLICY_TORCH ? *settings : mt_alloc_settings_of(MT_POLICY_TORCH);
}

bool mt_alloc_settings_are_equal(const struct mt_alloc_settings *a, const struct mt_alloc_settings *b)
{
    return a->policy == b->policy && a->max_split_bytes == b->max_split_bytes &&
           a->roundup_power2_divisions == b->roundup_power2_divisions && a->gc_threshold == b->gc_threshold &&
           a->expandable_segments == b->expandable_segments;
}

bool mt_alloc_settings_are_sound(const struct mt_alloc_settings *settings)
{
    int divisions = settings->roundup_power2_divisions;
    return (size_t)settings->policy < POLICY_COUNT && settings->max_split_bytes > LEAST_MAX_SPLIT_BYTES &&
           divisions >= 0 && divisions <= MOST_DIVISIONS && (divisions & (divisions - 1)) == 0 &&
           settings->gc_threshold >= 0 && settings->gc_threshold < 1 &&
           (settings->policy == MT_POLICY_TORCH || !has_torch_settings(settings));
}

mt_status mt_alloc_settings_parse(const char *text, struct mt_alloc_settings *out)
{
    struct mt_alloc_settings settings = mt_alloc_settings_of(MT_POLICY_TIGHT);
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        MT_TRY(parse_item(text, length, &settings));
        text += length;
        if (*text == ',' && *++text == '\0')
            return mt_fail(MT_USAGE, "the allocator settings end with a comma");
    }
    if (settings.policy != MT_POLICY_TORCH && has_torch_settings(&settings))
        return mt_fail(MT_USAGE, "max_split, roundup_power2_divisions, gc_threshold and expandable_segments are "
                                 "settings of policy=torch");
    assert(mt_alloc_settings_are_sound(&settings));
    *out = settings;
    return MT_OK;
}

/* Adds the value with the fewest digits that parse to the same number. */
static void add_share(struct mt_text *out, double share)
{
    char digits[32];
    for (int precision = 1; precision <= 17; precision++) {
        mt_write_real(digits, sizeof digits, precision, share);
        if (mt_read_real(digits, NULL) == share)
            break;
    }
    mt_text_add(out, ",gc_threshold=%s", digits);
}

/* Adds the policy and either all settings, or those that differ from the default. */
static void add_settings(const struct mt_alloc_settings *settings, bool all, struct mt_text *out)
{
    mt_text_add(out, "policy=%s", policy_names[settings->policy]);
    if (settings->max_split_bytes != UINT64_MAX)
        mt_text_add(out, ",max_split=%" PRIu64, settings->max_split_bytes);
    else if (all)
        mt_text_add(out, ",max_split=off");
    if (all || settings->roundup_power2_divisions != 0)
        mt_text_add(out, ",roundup_power2_divisions=%d", settings->roundup_power2_divisions);
    if (all || settings->gc_threshold > 0)
        add_share(out, settings->gc_threshold);
    if (all || settings->expandable_segments)
        mt_text_add(out, ",expandable_segments=%s", settings->expandable_segments ? "on" : "off");
}

void mt_alloc_settings_format_short(const struct mt_alloc_settings *settings, struct mt_text *out)
{
    add_settings(settings, false, out);
}

void mt_alloc_settings_format(const struct mt_alloc_settings *settings, struct mt_text *out)
{
    add_settings(settings, settings->policy == MT_POLICY_TORCH, out);
}
