/* The settings of PyTorch's allocator in a snapshot, its rules that turn requests into blocks, and the
 * settings of the run that follow from a snapshot.
 *
 *   requested ──round──▶ rounded ──free piece: is the rest split off?──▶ the block
 *
 * Threads: any; settings do not change once they are read. */
#pragma once

#include "base/text.h"
#include "producers/file/torch_device.h"
#include "producers/file/value.h"
#include "trace/store/recorder.h"

/* Sizes from 1 MiB on form this many intervals, each twice as long as the one before. */
enum { MT_TORCH_INTERVALS = 16 };

/* Whether the recording overwrote its oldest events, according to the snapshot. */
typedef enum mt_torch_overflow {
    MT_TORCH_OVERFLOW_UNSAID,
    MT_TORCH_OVERFLOWED,
    MT_TORCH_NOT_OVERFLOWED
} mt_torch_overflow;

/* PyTorch's defaults are 0 for all but max_split_bytes. Invariant: divisions are 0 or powers of two. */
struct mt_torch_settings {
    bool is_known;                          /* the snapshot has them; older ones do not */
    uint64_t max_split_bytes;               /* blocks from this size on are never split; UINT64_MAX: no such limit */
    uint32_t divisions[MT_TORCH_INTERVALS]; /* steps between two powers of two, to which sizes are rounded up; the first
                                               also applies to all smaller sizes; 0: none, as 1 */
    double gc_threshold;                    /* 0: off */
    bool is_expandable;                     /* segments grow */
    mt_torch_overflow overflow;
    mt_torch_device device;
    uint64_t padding_bytes;    /* added to a request before it is rounded; on Ascend */
    const char *configuration; /* PYTORCH_CUDA_ALLOC_CONF or its equivalent, of the values; "" if it was not set */
};

/* Reads allocator_settings of a snapshot. A value that is invalid in PyTorch counts as the default. */
void mt_torch_settings_read(const struct mt_value *root, struct mt_torch_settings *out);

/* Sets the settings for pinned memory of the host: all defaults. */
void mt_torch_settings_of_host(struct mt_torch_settings *out);

/* True if PyTorch's rules for blocks and segments apply. MLX and pinned memory have others. */
bool mt_torch_settings_is_pytorch(const struct mt_torch_settings *settings);

/* Returns the size to which a request is rounded up. bytes <= 2^62. */
uint64_t mt_torch_settings_round(const struct mt_torch_settings *settings, uint64_t bytes);

/* True if the remainder of a free piece, beyond a block of `rounded_bytes`, is split off. */
bool mt_torch_settings_split(const struct mt_torch_settings *settings, uint64_t rounded_bytes, uint64_t rest_bytes);

/* True if one number of divisions applies to all sizes. --alloc can't express more. */
bool mt_torch_settings_is_uniform(const struct mt_torch_settings *settings);

/* The facts that a snapshot states about its run: if PyTorch made it, the allocator's settings; if memtrace exported
 * it, the run's device, name, state and settings. Texts belong to the snapshot, except for `alloc`. */
struct mt_torch_facts {
    bool is_own; /* memtrace exported the snapshot */
    const char *device;
    const char *name, *state; /* of the exported run; "": not stated */
    int64_t start_us;         /* when the exported run began, on the events' clock; 0: not stated */
    uint64_t capacity_bytes;  /* 0: not stated */
    struct mt_run_setting *settings;
    size_t setting_count;
    char *alloc; /* the value of a setting; NULL: none */
};

/* Reads the facts. Release them before the snapshot's values. */
void mt_torch_facts_read(const struct mt_value *root, const struct mt_torch_settings *settings,
                         struct mt_torch_facts *out);

/* Adds a setting, whose texts are borrowed. */
void mt_torch_facts_add(struct mt_torch_facts *facts, const char *name, const char *value);
void mt_torch_facts_release(struct mt_torch_facts *facts);
