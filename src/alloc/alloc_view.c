/* The read functions of an allocator: incremental counters by pool, copies of all counters, and the block at an
 * address. */
#include "alloc/alloc.h"
#include "alloc/block.h"

/* True if a block is the only live one of its segment. */
static bool is_alone(const struct mt_block *block)
{
    const struct mt_block *before = block->before, *after = block->after;
    return (before == NULL || (before->is_free && before->before == NULL)) &&
           (after == NULL || (after->is_free && after->after == NULL));
}

static int64_t free_neighbours(const struct mt_block *block)
{
    return (block->before != NULL && block->before->is_free) + (block->after != NULL && block->after->is_free);
}

/* Counts the split memory that changes with a block, which was just allocated (1), or is about to be free (-1). If its
 * segment has other live blocks, the block was cut from split memory, and its free neighbours are the rest of that. In
 * an idle segment, all memory outside the block becomes split. */
static void count_split(struct mt_alloc *alloc, const struct mt_block *block, int64_t sign)
{
    const struct mt_segment *segment = block->segment;
    struct mt_pool_counters *pools = &alloc->stats.pools;
    if (segment->is_range)
        return;
    int64_t blocks = free_neighbours(block), bytes = (int64_t)(segment->bytes - block->bytes);
    if (!is_alone(block)) {
        blocks--;
        bytes = -(int64_t)block->bytes;
    }
    mt_pool_change(pools, MT_COUNTED_SPLIT_BLOCKS, segment->pool, sign * blocks);
    mt_pool_change(pools, MT_COUNTED_SPLIT_BYTES, segment->pool, sign * bytes);
}

void mt_pool_count_out(struct mt_alloc *alloc, const struct mt_block *block)
{
    struct mt_pool_counters *pools = &alloc->stats.pools;
    const mt_pool pool = block->segment->pool;
    mt_pool_add(pools, MT_COUNTED_BLOCKS, pool, 1);
    mt_pool_add(pools, MT_COUNTED_REQUESTED_BYTES, pool, block->requested_bytes);
    mt_pool_add(pools, MT_COUNTED_ALLOCATED_BYTES, pool, block->bytes);
    if (block->bytes >= alloc->settings.max_split_bytes)
        mt_pool_add(pools, MT_COUNTED_OVERSIZE_BLOCKS, pool, 1);
    count_split(alloc, block, 1);
}

void mt_pool_count_back(struct mt_alloc *alloc, const struct mt_block *block)
{
    struct mt_pool_counters *pools = &alloc->stats.pools;
    const mt_pool pool = block->segment->pool;
    mt_pool_subtract(pools, MT_COUNTED_BLOCKS, pool, 1);
    mt_pool_subtract(pools, MT_COUNTED_REQUESTED_BYTES, pool, block->requested_bytes);
    mt_pool_subtract(pools, MT_COUNTED_ALLOCATED_BYTES, pool, block->bytes);
    if (block->bytes >= alloc->settings.max_split_bytes)
        mt_pool_subtract(pools, MT_COUNTED_OVERSIZE_BLOCKS, pool, 1);
}

void mt_pool_count_free(struct mt_alloc *alloc, const struct mt_block *block)
{
    count_split(alloc, block, -1);
}

/* ---- the functions of alloc.h ---- */

static uint64_t largest_free(const struct mt_alloc *alloc)
{
    uint64_t largest = 0;
    for (const struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer)
        for (const struct mt_block *block = segment->first; block != NULL; block = block->after)
            if (block->is_free && block->bytes > largest)
                largest = block->bytes;
    return largest;
}

void mt_alloc_stats(struct mt_alloc *alloc, struct mt_alloc_stats *out)
{
    mt_biased_lock_take(&alloc->lock);
    *out = alloc->stats;
    mt_pool_counters_sum(&out->pools);
    out->largest_free_bytes = largest_free(alloc);
    out->max_split_bytes = alloc->settings.max_split_bytes;
    mt_biased_lock_give(&alloc->lock);
}

static void reset_peak(struct mt_alloc_count *count)
{
    count->peak_requested_bytes = count->requested_bytes;
    count->peak_allocated_bytes = count->allocated_bytes;
}

void mt_alloc_reset_peaks(struct mt_alloc *alloc)
{
    mt_biased_lock_take(&alloc->lock);
    reset_peak(&alloc->stats.all);
    for (int c = 0; c < MT_MOST_CATEGORIES; c++)
        reset_peak(&alloc->stats.category[c]);
    alloc->stats.peak_reserved_bytes = alloc->stats.reserved_bytes;
    mt_pool_counters_reset(&alloc->stats.pools);
    assert(mt_alloc_is_sound(alloc));
    mt_biased_lock_give(&alloc->lock);
}

/* Returns the segment that contains an address, or NULL. */
static const struct mt_segment *segment_at(const struct mt_alloc *alloc, mt_addr address)
{
    const struct mt_segment *segment = alloc->oldest;
    while (segment != NULL && address - segment->address >= segment->bytes) /* below it, the difference wraps around */
        segment = segment->newer;
    return segment;
}

static const struct mt_block *block_at(const struct mt_segment *segment, uint64_t offset)
{
    const struct mt_block *block = segment->first;
    while (block->offset + block->bytes <= offset)
        block = block->after;
    assert(block->offset <= offset);
    return block;
}

bool mt_alloc_find(struct mt_alloc *alloc, mt_addr address, struct mt_block_view *out)
{
    mt_biased_lock_take(&alloc->lock);
    const struct mt_segment *segment = segment_at(alloc, address);
    const struct mt_block *block = segment != NULL ? block_at(segment, address - segment->address) : NULL;
    const bool is_found = block != NULL && mt_block_is_out(block);
    if (is_found)
        *out = (struct mt_block_view){.address = segment->address + block->offset,
                                      .requested_bytes = block->requested_bytes,
                                      .allocated_bytes = block->bytes,
                                      .stream = segment->stream,
                                      .label = block->label,
                                      .span = block->span};
    mt_biased_lock_give(&alloc->lock);
    return is_found;
}
