/* The counters of an allocator. */
#pragma once

#include "alloc/pool_counters.h"
#include "base/label.h"

#include <stdbool.h>
#include <stdint.h>

/* The blocks of one category, or all blocks.
 * Invariants: requested <= allocated; a counter never exceeds its peak; blocks <= total_allocs. */
struct mt_alloc_count {
    uint64_t requested_bytes; /* live, as requested */
    uint64_t allocated_bytes; /* live, with rounding */
    uint64_t blocks;          /* live */
    uint64_t peak_requested_bytes;
    uint64_t peak_allocated_bytes;
    uint64_t total_allocs; /* since the allocator was created */
};

/* True if the counters satisfy these invariants. */
static inline bool mt_alloc_count_is_sound(const struct mt_alloc_count *count)
{
    return count->requested_bytes <= count->allocated_bytes && count->requested_bytes <= count->peak_requested_bytes &&
           count->allocated_bytes <= count->peak_allocated_bytes && count->blocks <= count->total_allocs;
}

/* A request that was refused. */
struct mt_alloc_refusal {
    uint64_t requested_bytes;                /* 0: no request was refused so far */
    uint64_t released_bytes;                 /* cached bytes that were released for it without success */
    uint64_t live_bytes[MT_MOST_CATEGORIES]; /* allocated at the refusal */
    mt_label_id label;
    mt_span_id span;
};

/* Invariants: `all` is the sum of the categories, except for peaks; all.allocated_bytes <= reserved_bytes <=
 * peak_reserved_bytes. */
struct mt_alloc_stats {
    struct mt_alloc_count all;
    struct mt_alloc_count category[MT_MOST_CATEGORIES];
    uint64_t reserved_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t segments;
    uint64_t largest_free_bytes; /* of one free block */
    uint64_t max_split_bytes;    /* of the settings */
    struct mt_pool_counters pools;
    uint64_t ooms;               /* requests that were refused */
    uint64_t retries;            /* how often the whole cache was released to try the device again */
    uint64_t planned_requests;   /* placed by the plan (plan.h) */
    uint64_t unplanned_requests; /* placed elsewhere while a plan was followed, or after it was given up */
    struct mt_alloc_refusal last_refusal;
};
