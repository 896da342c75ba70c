/* The settings of PyTorch's allocator, as a snapshot tells them, and the rules by which they make blocks of requests.
 *
 *   requested ──round──▶ rounded ──free piece: is what is left split off?──▶ the block
 *
 * Threads: any; settings do not change once they are read. */
#ifndef MT_TRACE_IMPORT_TORCH_SETTINGS_H
#define MT_TRACE_IMPORT_TORCH_SETTINGS_H

#include "base/text.h"
#include "trace/import/value.h"

/* Sizes from 1 MiB on are in as many intervals, each twice as far as the one before. */
enum { MT_TORCH_INTERVALS = 16 };

/* Zeros but for max_split_bytes are what PyTorch does by itself. Invariant: divisions are 0 or powers of two. */
struct mt_torch_settings {
    bool is_known;                          /* the snapshot tells them; older ones do not */
    uint64_t max_split_bytes;               /* blocks from this size on are never split; UINT64_MAX: no such limit */
    uint32_t divisions[MT_TORCH_INTERVALS]; /* steps between two powers of two that sizes are rounded up to; the first
                                               * is that of all smaller ones, too; 0: none, as 1 */
    double gc_threshold;                    /* 0: off */
    bool is_expandable;                     /* segments grow */
    const char *configuration;              /* as the program was told; of the values, "" if it was not */
};

/* Reads allocator_settings of a snapshot. What is none of PyTorch's values is taken for what PyTorch does by itself. */
void mt_torch_settings_read(const struct mt_value *root, struct mt_torch_settings *out);

/* What a request is rounded up to. bytes <= 2^62. */
uint64_t mt_torch_settings_round(const struct mt_torch_settings *settings, uint64_t bytes);

/* Whether what a free piece has beyond a block of so many bytes is split off it. */
bool mt_torch_settings_split(const struct mt_torch_settings *settings, uint64_t rounded_bytes, uint64_t rest_bytes);

/* Whether one number of divisions is that of all sizes: all that --alloc can say. */
bool mt_torch_settings_is_uniform(const struct mt_torch_settings *settings);

/* Adds them as --alloc spells them, "policy=torch,…", but for divisions that differ by size. */
void mt_torch_settings_format(const struct mt_torch_settings *settings, struct mt_text *out);

#endif
