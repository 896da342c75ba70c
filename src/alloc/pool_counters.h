/* The counters of PyTorch's allocator for torch.cuda.memory_stats, by pool: current value, peak, and total.
 *
 * PyTorch's "freed" is total - now. Its "active" is equal to allocated here: a block that other streams use is free for
 * its own stream as soon as it is freed, since that stream waits for them.
 *
 *   segment  ├─ block ─┼─ split ─┼─ block ─┼─ split ─┤   split: free parts of a segment that can't be released
 *   segment  ├──────────────── idle ─────────────────┤   not split
 *
 * A range of addresses can release any page, so no part of it counts as split, like in PyTorch's expandable segments.
 *
 * Meaning: c10/core/CachingDeviceAllocator.h and c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11. */
#pragma once

#include <assert.h>
#include <stdint.h>

/* Small blocks have separate segments, so that they do not fragment the space of large ones. */
typedef enum mt_pool { MT_POOL_SMALL, MT_POOL_LARGE, MT_POOL_COUNT } mt_pool;

enum { MT_BOTH_POOLS = MT_POOL_COUNT, MT_POOL_ROWS };

typedef enum mt_counted {
    MT_COUNTED_BLOCKS, /* live */
    MT_COUNTED_SEGMENTS,
    MT_COUNTED_SPLIT_BLOCKS,
    MT_COUNTED_OVERSIZE_BLOCKS, /* of max_split bytes or more */
    MT_COUNTED_OVERSIZE_SEGMENTS,
    MT_COUNTED_REQUESTED_BYTES, /* of live blocks */
    MT_COUNTED_ALLOCATED_BYTES, /* of live blocks, rounded up */
    MT_COUNTED_RESERVED_BYTES,
    MT_COUNTED_SPLIT_BYTES,
    MT_COUNTED_COUNT
} mt_counted;

/* Invariants: now <= peak, and now <= total. */
struct mt_counter {
    uint64_t now, peak, total;
};

/* Invariants: `now` and `total` of both pools are the sums of the pools' values, set only by mt_pool_counters_sum;
 * their peak is at most the sum of the pools' peaks. */
struct mt_pool_counters {
    struct mt_counter of[MT_COUNTED_COUNT][MT_POOL_ROWS];
};

static inline uint64_t mt_pool_now(const struct mt_counter *rows)
{
    return rows[MT_POOL_SMALL].now + rows[MT_POOL_LARGE].now;
}

static inline void mt_pool_add(struct mt_pool_counters *counters, mt_counted counted, mt_pool pool, uint64_t amount)
{
    struct mt_counter *rows = counters->of[counted], *row = &rows[pool];
    assert(pool < MT_POOL_COUNT);
    row->now += amount;
    row->total += amount;
    if (row->now > row->peak)
        row->peak = row->now;
    if (mt_pool_now(rows) > rows[MT_BOTH_POOLS].peak)
        rows[MT_BOTH_POOLS].peak = mt_pool_now(rows);
}

static inline void mt_pool_subtract(struct mt_pool_counters *counters, mt_counted counted, mt_pool pool,
                                    uint64_t amount)
{
    assert(pool < MT_POOL_COUNT && counters->of[counted][pool].now >= amount);
    counters->of[counted][pool].now -= amount;
}

/* Counts a positive or negative change as one addition or subtraction. */
static inline void mt_pool_change(struct mt_pool_counters *counters, mt_counted counted, mt_pool pool, int64_t change)
{
    if (change > 0)
        mt_pool_add(counters, counted, pool, (uint64_t)change);
    else if (change < 0)
        mt_pool_subtract(counters, counted, pool, (uint64_t)-change);
}

/* Sets the sums of both pools. */
static inline void mt_pool_counters_sum(struct mt_pool_counters *counters)
{
    for (int counted = 0; counted < MT_COUNTED_COUNT; counted++) {
        struct mt_counter *rows = counters->of[counted];
        rows[MT_BOTH_POOLS].now = mt_pool_now(rows);
        rows[MT_BOTH_POOLS].total = rows[MT_POOL_SMALL].total + rows[MT_POOL_LARGE].total;
    }
}

/* Resets every peak to the current value. */
static inline void mt_pool_counters_reset(struct mt_pool_counters *counters)
{
    mt_pool_counters_sum(counters);
    for (int counted = 0; counted < MT_COUNTED_COUNT; counted++)
        for (int row = 0; row < MT_POOL_ROWS; row++)
            counters->of[counted][row].peak = counters->of[counted][row].now;
}
