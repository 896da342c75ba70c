/* The settings of an allocator, and their text form: "policy=torch,max_split=200MiB". */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum mt_policy { MT_POLICY_TIGHT, MT_POLICY_TORCH } mt_policy;

/* Returns the policy's name in settings: "tight" or "torch". */
const char *mt_policy_name(mt_policy policy);

/* mt_alloc_settings_parse("") returns the defaults.
 * Invariants: max_split_bytes is above 20 MiB; roundup_power2_divisions is 0 or a power of two up to 64; 0 <=
 * gc_threshold < 1; with the policy `tight`, all other settings have their defaults. */
struct mt_alloc_settings {
    mt_policy policy;
    uint64_t max_split_bytes;     /* torch: blocks from this size on are never split; UINT64_MAX: no such limit */
    int roundup_power2_divisions; /* torch: sizes are rounded up to this many steps between powers of two; 0: off */
    bool expandable_segments;     /* torch: segments are ranges of addresses that grow */
    double gc_threshold; /* torch: share of the capacity above which idle segments are released first; 0: off */
};

/* Returns the settings with this policy and defaults for the others. */
struct mt_alloc_settings mt_alloc_settings_of(mt_policy policy);

/* Returns the given settings if they have PyTorch's policy, otherwise the defaults of that policy. */
struct mt_alloc_settings mt_alloc_settings_as_torch(const struct mt_alloc_settings *settings);

/* True if the settings satisfy these invariants. */
bool mt_alloc_settings_are_sound(const struct mt_alloc_settings *settings);

/* True if an allocator behaves equally with both. */
bool mt_alloc_settings_are_equal(const struct mt_alloc_settings *a, const struct mt_alloc_settings *b);

/* Parses "policy=torch,max_split=200MiB,roundup_power2_divisions=4,gc_threshold=0.8, expandable_segments=on"; "" means
 * the default. Fails with MT_USAGE and a list of the valid ones for an unknown key or value. */
mt_status mt_alloc_settings_parse(const char *text, struct mt_alloc_settings *out);

/* Adds every setting of the policy to `out`, in the same form. */
struct mt_text;
void mt_alloc_settings_format(const struct mt_alloc_settings *settings, struct mt_text *out);

/* Adds the policy, and those settings that differ from the default. Parses to the same settings. */
void mt_alloc_settings_format_short(const struct mt_alloc_settings *settings, struct mt_text *out);
