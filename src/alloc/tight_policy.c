/* The policy `tight`, the default: a block is found in constant time, and less is reserved.
 *
 *   request      pool    segment
 *   <= 64 KiB    small   2 MiB
 *   above        large   as many requests of this size as make up the greater of 48 MiB and 1/200 of what is
 *                        reserved, but no more than one request or 1/64 of the device's capacity
 *
 * Sizes are rounded up to 512 B and every remainder is split off, so that a block is never longer than its rounded
 * request. Free blocks are kept in size classes (size_classes.h) by stream and pool.
 *
 * Why these segments: training asks for the same few sizes thousands of times. A segment that is a whole number of
 * requests has no end piece that nothing fits in; one of many requests lets blocks of one size merge into room for
 * another; and growing in proportion to what is reserved bounds what the last, partly used segment wastes.
 * Peak reserved over peak requested bytes, over the first eight training steps of a 2.7B model as PyTorch asked (fp32 |
 * bf16 autocast), with all sizes divided by 8, and for 60,000 requests of random sizes from 256 B to 64 MiB:
 *
 *                                              2.7B             1/8             random
 *   whole requests, as above                   1.012 | 1.009    1.016 | 1.007   1.242
 *   whole requests, at least 128 MiB           1.015 | 1.007    1.023 | 1.013   1.251
 *   at least 128 MiB                           1.032 | 1.026    1.010 | 1.015   1.227
 *   the request alone, rounded up to 2 MiB     1.044 | 1.029    1.174 | 1.107   1.301
 *   the first, small pool up to 1 MiB          1.012 | 1.009    1.017 | 1.016   1.218
 *   PyTorch's rules                            1.044 | 1.024    1.065 | 1.071   1.268
 *
 * Shares of 1/64 to 1/300 and least sizes of 24 to 64 MiB stay below 1.024 and 1.038 in the first four columns: the
 * figures hang on which blocks happen to be neighbours, and only their range means anything. With sizes divided by 64, a
 * small pool up to 1 MiB costs 1.056 | 1.049, for 2 MiB hold only a few blocks of several hundred KiB; one up to 64 KiB
 * 1.034 | 1.011.
 *
 * Idle segments are kept until the device refuses. Releasing them before each growth gave 1.014 | 1.007: nothing
 * gained, since segments of many blocks are seldom idle, and each release stalls a GPU. When the device refuses, the
 * wish comes down to a segment for this request alone, then idle segments go, of every stream. */
#include "alloc/size_classes.h"
#include "base/checked.h"
#include "base/memory.h"

#include <stdlib.h>

enum { SMALL_LIMIT_BYTES = 64 << 10, LEAST_GROWTH_BYTES = 48 << 20, GROWTH_SHARE = 200, CAPACITY_SHARE = 64 };

/* The free blocks of one stream. */
struct stream_classes {
    struct mt_size_classes pool[MT_POOL_COUNT];
};

/* Invariant: streams[s] exists for every stream s that a block was ever free on. */
struct tight_index {
    struct stream_classes **streams;
    uint32_t stream_count;
};

static void *tight_create(void)
{
    return mt_host_alloc(sizeof(struct tight_index));
}

static void tight_destroy(void *index)
{
    struct tight_index *tight = index;
    for (uint32_t i = 0; i < tight->stream_count; i++)
        free(tight->streams[i]);
    free(tight->streams);
    free(tight);
}

static struct stream_classes *add_stream(struct tight_index *tight, mt_stream stream)
{
    if (stream >= tight->stream_count) {
        uint32_t count = stream + 1u;
        tight->streams = mt_host_resize(tight->streams, count, sizeof(struct stream_classes *));
        for (uint32_t i = tight->stream_count; i < count; i++)
            tight->streams[i] = NULL;
        tight->stream_count = count;
    }
    return tight->streams[stream] = mt_host_alloc(sizeof(struct stream_classes));
}

static struct mt_size_classes *classes_of(const struct mt_alloc *alloc, mt_stream stream, mt_pool pool)
{
    struct tight_index *tight = alloc->index;
    struct stream_classes *classes = stream < tight->stream_count ? tight->streams[stream] : NULL;
    if (classes == NULL)
        classes = add_stream(tight, stream);
    return &classes->pool[pool];
}

static bool tight_round(const struct mt_alloc_settings *settings, uint64_t requested_bytes, uint64_t *out_bytes)
{
    (void)settings;
    return mt_checked_round_up(requested_bytes, MT_BLOCK_UNIT, out_bytes);
}

static mt_pool pool_of(uint64_t bytes)
{
    return bytes <= SMALL_LIMIT_BYTES ? MT_POOL_SMALL : MT_POOL_LARGE;
}

static struct mt_block *tight_find(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes)
{
    return mt_size_classes_find(classes_of(alloc, stream, pool_of(bytes)), bytes);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The bytes of a segment for many requests of `bytes`; false if that overflows. */
static bool roomy_segment_bytes(const struct mt_alloc *alloc, uint64_t bytes, uint64_t *out_bytes)
{
    if (pool_of(bytes) == MT_POOL_SMALL) {
        *out_bytes = MT_SEGMENT_UNIT;
        return true;
    }
    uint64_t least = larger(alloc->stats.reserved_bytes / GROWTH_SHARE, LEAST_GROWTH_BYTES);
    least = smaller(least, larger(alloc->device->capacity_bytes / CAPACITY_SHARE, bytes));
    uint64_t whole;
    return mt_checked_round_up(least, bytes, &whole) && mt_checked_round_up(whole, MT_SEGMENT_UNIT, out_bytes);
}

static bool tight_least_segment(uint64_t bytes, uint64_t *out_bytes)
{
    return mt_checked_round_up(bytes, MT_SEGMENT_UNIT, out_bytes);
}

static struct mt_block *tight_grow(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes)
{
    uint64_t roomy, exact;
    if (!roomy_segment_bytes(alloc, bytes, &roomy) || !tight_least_segment(bytes, &exact))
        return NULL;
    mt_pool pool = pool_of(bytes);
    struct mt_block *block = mt_segment_map(alloc, stream, pool, roomy);
    if (block == NULL && exact < roomy)
        block = mt_segment_map(alloc, stream, pool, exact);
    if (block != NULL)
        return block;
    mt_segments_release_idle(alloc);
    return mt_segment_map(alloc, stream, pool, exact);
}

static bool tight_splits(const struct mt_alloc *alloc, const struct mt_block *block, uint64_t bytes)
{
    (void)alloc;
    return block->bytes > bytes;
}

static void tight_insert(struct mt_alloc *alloc, struct mt_block *block)
{
    mt_size_classes_insert(classes_of(alloc, block->segment->stream, block->segment->pool), block);
}

static void tight_remove(struct mt_alloc *alloc, struct mt_block *block)
{
    mt_size_classes_remove(classes_of(alloc, block->segment->stream, block->segment->pool), block);
}

/* The order in which blocks of a class came back. */
static uint64_t tight_remembers(const struct mt_alloc *alloc)
{
    const struct tight_index *tight = alloc->index;
    uint64_t sum = 0;
    for (uint32_t stream = 0; stream < tight->stream_count; stream++)
        for (mt_pool pool = 0; pool < MT_POOL_COUNT && tight->streams[stream] != NULL; pool++)
            sum = mt_size_classes_fold(&tight->streams[stream]->pool[pool], sum);
    return sum;
}

static bool tight_holds(const struct mt_alloc *alloc, const struct mt_block *block)
{
    return mt_size_classes_hold(classes_of(alloc, block->segment->stream, block->segment->pool), block);
}

static mt_status tight_check(const struct mt_alloc *alloc, uint64_t *out_blocks)
{
    const struct tight_index *tight = alloc->index;
    *out_blocks = 0;
    mt_status status = MT_OK;
    for (uint32_t stream = 0; stream < tight->stream_count && status == MT_OK; stream++)
        for (mt_pool pool = 0; pool < MT_POOL_COUNT && tight->streams[stream] != NULL; pool++)
            status = mt_status_keep(status, mt_size_classes_check(&tight->streams[stream]->pool[pool], out_blocks));
    return status;
}

const struct mt_policy_table mt_policy_tight = {
    .name = "tight",
    .small_limit_bytes = SMALL_LIMIT_BYTES,
    .create = tight_create,
    .destroy = tight_destroy,
    .round = tight_round,
    .least_segment = tight_least_segment,
    .find = tight_find,
    .grow = tight_grow,
    .splits = tight_splits,
    .insert = tight_insert,
    .remove = tight_remove,
    .holds = tight_holds,
    .remembers = tight_remembers,
    .check = tight_check,
};
