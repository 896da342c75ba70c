/* The peaks that a run would have had if estimated scratch memory were at the lower or at the upper end of its range.
 *
 *   blocks of the run ──▶ three allocators on simulated devices: with estimates as counted, at their lower end, at their upper end
 *
 * They begin with the run's first estimate, with the live blocks and the cached memory of that moment. Rules of private
 * pools are ignored. Threads: one at a time. */
#pragma once

#include "alloc/alloc.h"
#include "base/number_map.h"

struct mt_live_bounds;

/* The range of an estimate. Invariant: low_bytes <= high_bytes. */
struct mt_estimate_range {
    uint64_t low_bytes, high_bytes;
};

/* By how much the peaks may be lower and higher. */
struct mt_peak_bounds {
    uint64_t live_less, live_more, reserved_less, reserved_more;
};

/* Begins with what an allocator with these settings has now. `blocks` are its live blocks, struct mt_block *, by
 * address. Fails as mt_live_run_open; *out is NULL then. */
mt_status mt_live_bounds_create(struct mt_alloc *alloc, const struct mt_alloc_settings *settings,
                                const struct mt_number_map *blocks, struct mt_live_bounds **out);
void mt_live_bounds_destroy(struct mt_live_bounds *bounds); /* may be NULL */

/* Takes a block that the run took; with a range, as many bytes as its ends say. */
void mt_live_bounds_take(struct mt_live_bounds *bounds, const struct mt_block *block,
                         const struct mt_estimate_range *range);

/* Frees the block that the run frees at that address. */
void mt_live_bounds_give(struct mt_live_bounds *bounds, mt_addr address);

/* Takes and frees an estimate for which the run takes nothing. */
void mt_live_bounds_pass(struct mt_live_bounds *bounds, const struct mt_estimate_range *range);

/* Frees cached memory, as mt_alloc_release_cached. */
void mt_live_bounds_release_cached(struct mt_live_bounds *bounds);

struct mt_peak_bounds mt_live_bounds_find(const struct mt_live_bounds *bounds);
