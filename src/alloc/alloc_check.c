/* The walks over all segments and blocks: the check, which recomputes every counter and index and compares them, and
 * the fingerprint. */
#include "alloc/alloc.h"
#include "alloc/block.h"
#include "base/random.h"

#include <inttypes.h>

/* The sums of a walk over all blocks. */
struct found {
    struct mt_alloc_stats stats; /* only of live blocks and reserved bytes */
    uint64_t free_blocks, waiting_blocks;
};

static mt_status differ(const struct mt_block *block, const char *what)
{
    return mt_fail(MT_FAILED, "segment %u, block at offset %" PRIu64 " of %" PRIu64 " bytes: %s", block->segment->birth,
                   block->offset, block->bytes, what);
}

static void add_live(struct mt_alloc_count *count, const struct mt_block *block)
{
    count->requested_bytes += block->requested_bytes;
    count->allocated_bytes += block->bytes;
    count->blocks++;
}

static mt_status check_free(const struct mt_alloc *alloc, const struct mt_block *block, struct found *found)
{
    found->free_blocks++;
    if (block->after != NULL && block->after->is_free)
        return differ(block, "is free, and so is the next");
    if (block->users != NULL)
        return differ(block, "is free and in use");
    if (!alloc->policy->holds(alloc, block))
        return differ(block, "is free and not in the index");
    if (!block->segment->is_range && !mt_segment_is_idle(block->segment)) {
        mt_pool_add(&found->stats.pools, MT_COUNTED_SPLIT_BLOCKS, block->segment->pool, 1);
        mt_pool_add(&found->stats.pools, MT_COUNTED_SPLIT_BYTES, block->segment->pool, block->bytes);
    }
    return MT_OK;
}

static mt_status check_hole(const struct mt_block *block)
{
    if (block->is_free || block->users != NULL)
        return differ(block, "is a hole, and free or in use");
    if (!block->segment->is_range)
        return differ(block, "is a hole in a segment that was reserved in one piece");
    if (block->offset % MT_SEGMENT_UNIT != 0 || block->bytes % MT_SEGMENT_UNIT != 0)
        return differ(block, "is a hole and no number of pages");
    if (block->after != NULL && block->after->is_hole)
        return differ(block, "is a hole, and so is the next");
    return MT_OK;
}

static mt_status check_waiting(const struct mt_block *block, struct found *found)
{
    found->waiting_blocks++;
    return block->users != NULL ? MT_OK : differ(block, "waits for users, and has none");
}

static mt_status check_live(const struct mt_block *block, struct found *found)
{
    if (block->requested_bytes == 0 || block->requested_bytes > block->bytes)
        return differ(block, "is out for a request that does not fit");
    mt_category category = mt_label_category(block->label);
    if (category >= MT_MOST_CATEGORIES)
        return differ(block, "is out without a category");
    struct mt_pool_counters *pools = &found->stats.pools;
    const mt_pool pool = block->segment->pool;
    mt_pool_add(pools, MT_COUNTED_BLOCKS, pool, 1);
    mt_pool_add(pools, MT_COUNTED_REQUESTED_BYTES, pool, block->requested_bytes);
    mt_pool_add(pools, MT_COUNTED_ALLOCATED_BYTES, pool, block->bytes);
    add_live(&found->stats.all, block);
    add_live(&found->stats.category[category], block);
    return MT_OK;
}

static mt_status check_block(const struct mt_alloc *alloc, const struct mt_segment *segment,
                             const struct mt_block *block, uint64_t offset, struct found *found)
{
    if (block->segment != segment)
        return mt_fail(MT_FAILED, "segment %u has a block that belongs to another", segment->birth);
    if (block->offset != offset)
        return differ(block, "does not begin where the one before ends");
    if (block->bytes == 0 || block->bytes % MT_BLOCK_UNIT != 0)
        return differ(block, "has a size that is no multiple of the unit");
    if (block->after != NULL && block->after->before != block)
        return differ(block, "is not linked back from the next");
    if (block->is_hole)
        return check_hole(block);
    if (block->is_waiting)
        return check_waiting(block, found);
    return block->is_free ? check_free(alloc, block, found) : check_live(block, found);
}

static mt_status check_tiling(const struct mt_alloc *alloc, const struct mt_segment *segment, struct found *found)
{
    uint64_t offset = 0, mapped = 0;
    uint32_t holes = 0;
    if (segment->first->before != NULL)
        return differ(segment->first, "is the first and has a block before it");
    for (const struct mt_block *block = segment->first; block != NULL; block = block->after) {
        MT_TRY(check_block(alloc, segment, block, offset, found));
        offset += block->bytes;
        mapped += block->is_hole ? 0 : block->bytes;
        holes += block->is_hole;
        if (block->after == NULL && segment->last != block)
            return differ(block, "is the last, and the segment's last block is another");
    }
    if (mapped == 0 || mapped != segment->mapped_bytes || holes != segment->holes)
        return mt_fail(MT_FAILED,
                       "segment %u counts %" PRIu64 " bytes of memory and %u holes, its blocks %" PRIu64 " and %u",
                       segment->birth, segment->mapped_bytes, segment->holes, mapped, holes);
    if (offset == segment->bytes)
        return MT_OK;
    return mt_fail(MT_FAILED, "segment %u has %" PRIu64 " bytes, its blocks %" PRIu64, segment->birth, segment->bytes,
                   offset);
}

static mt_status check_segment(const struct mt_alloc *alloc, const struct mt_segment *segment, struct found *found)
{
    if (segment->bytes == 0 || segment->bytes % MT_SEGMENT_UNIT != 0)
        return mt_fail(MT_FAILED, "segment %u has %" PRIu64 " bytes, no multiple of the unit", segment->birth,
                       segment->bytes);
    if (segment->newer != NULL && segment->newer->birth <= segment->birth)
        return mt_fail(MT_FAILED, "segment %u is listed before segment %u", segment->birth, segment->newer->birth);
    if ((segment->newer != NULL ? segment->newer->older : alloc->newest) != segment)
        return mt_fail(MT_FAILED, "segment %u is not linked back", segment->birth);
    if (segment->birth >= alloc->next_birth)
        return mt_fail(MT_FAILED, "segment %u has a birth that was not given out yet", segment->birth);
    found->stats.segments++;
    found->stats.reserved_bytes += segment->mapped_bytes;
    mt_pool_add(&found->stats.pools, MT_COUNTED_SEGMENTS, segment->pool, 1);
    mt_pool_add(&found->stats.pools, MT_COUNTED_RESERVED_BYTES, segment->pool, segment->mapped_bytes);
    return check_tiling(alloc, segment, found);
}

/* A counter, and the value found by the walk. */
struct counter {
    const char *name;
    uint64_t counted, found;
};

static mt_status compare(const char *owner, const struct counter *counters, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (counters[i].counted != counters[i].found)
            return mt_fail(MT_FAILED, "%s: %s counts %" PRIu64 ", the walk found %" PRIu64, owner, counters[i].name,
                           counters[i].counted, counters[i].found);
    return MT_OK;
}

static mt_status compare_count(const char *owner, const struct mt_alloc_count *counted,
                               const struct mt_alloc_count *found)
{
    const struct counter counters[] = {{"requested bytes", counted->requested_bytes, found->requested_bytes},
                                       {"allocated bytes", counted->allocated_bytes, found->allocated_bytes},
                                       {"blocks", counted->blocks, found->blocks}};
    mt_status status = compare(owner, counters, sizeof counters / sizeof counters[0]);
    if (status == MT_OK && !mt_alloc_count_is_sound(counted))
        status = mt_fail(MT_FAILED, "%s: a peak is below its counter", owner);
    return status;
}

/* Compares the current values of each pool. Oversize ones depend only on the settings and are not counted again. */
static mt_status compare_pools(const struct mt_pool_counters *counted, const struct mt_pool_counters *found)
{
    for (int what = 0; what < MT_COUNTED_COUNT; what++) {
        if (what == MT_COUNTED_OVERSIZE_BLOCKS || what == MT_COUNTED_OVERSIZE_SEGMENTS)
            continue;
        for (int row = 0; row < MT_POOL_COUNT; row++) {
            const struct mt_counter *counter = &counted->of[what][row];
            if (counter->now != found->of[what][row].now)
                return mt_fail(MT_FAILED, "pool %d: counter %d is %" PRIu64 ", the walk found %" PRIu64, row, what,
                               counter->now, found->of[what][row].now);
            if (counter->now > counter->peak || counter->now > counter->total)
                return mt_fail(MT_FAILED, "pool %d: counter %d is above its peak or its total", row, what);
        }
    }
    return MT_OK;
}

static mt_status compare_stats(const struct mt_alloc *alloc, const struct found *found)
{
    const struct mt_alloc_stats *counted = &alloc->stats;
    MT_TRY(compare_count("all", &counted->all, &found->stats.all));
    for (mt_category c = 0; c < MT_MOST_CATEGORIES; c++)
        MT_TRY(compare_count(mt_sink_category_name(&alloc->sink, c), &counted->category[c], &found->stats.category[c]));
    const struct counter counters[] = {{"segments", counted->segments, found->stats.segments},
                                       {"reserved bytes", counted->reserved_bytes, found->stats.reserved_bytes}};
    MT_TRY(compare("all", counters, sizeof counters / sizeof counters[0]));
    MT_TRY(compare_pools(&counted->pools, &found->stats.pools));
    if (counted->peak_reserved_bytes < counted->reserved_bytes)
        return mt_fail(MT_FAILED, "the peak of reserved bytes is below the reserved bytes");
    if (alloc->device->reserved_bytes < counted->reserved_bytes)
        return mt_fail(MT_FAILED, "the device counts fewer reserved bytes than the allocator");
    return MT_OK;
}

static uint64_t count_waiting(const struct mt_alloc *alloc)
{
    uint64_t count = 0;
    for (const struct mt_block *block = alloc->waiting; block != NULL; block = block->link[0])
        count += block->is_waiting;
    return count;
}

static mt_status check_all(const struct mt_alloc *alloc)
{
    struct found found = {0};
    for (const struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer) {
        MT_TRY(check_segment(alloc, segment, &found));
    }
    MT_TRY(compare_stats(alloc, &found));
    uint64_t indexed;
    mt_status status = alloc->policy->check(alloc, &indexed);
    const struct counter counters[] = {{"free blocks", indexed, found.free_blocks},
                                       {"waiting blocks", count_waiting(alloc), found.waiting_blocks}};
    return status == MT_OK ? compare("index", counters, sizeof counters / sizeof counters[0]) : status;
}

mt_status mt_alloc_check(struct mt_alloc *alloc)
{
    mt_biased_lock_take(&alloc->lock);
    mt_status status = check_all(alloc);
    mt_biased_lock_give(&alloc->lock);
    return status;
}

/* ---- the fingerprint ---- */

static uint64_t fold(uint64_t sum, uint64_t value)
{
    return mt_splitmix64(sum ^ value);
}

static uint64_t fold_segment(uint64_t sum, const struct mt_segment *segment)
{
    sum = fold(sum, segment->birth);
    sum = fold(sum, segment->place);
    sum = fold(sum, (uint64_t)segment->stream << 8 | (uint64_t)segment->pool);
    for (const struct mt_block *block = segment->first; block != NULL; block = block->after)
        sum = fold(sum, block->bytes << 2 | block->is_hole << 1 | block->is_free);
    return sum;
}

/* Labels and times are left out, so a step that leaves all blocks unchanged has the same fingerprint as the previous
 * step. */
uint64_t mt_alloc_fingerprint(struct mt_alloc *alloc)
{
    mt_biased_lock_take(&alloc->lock);
    uint64_t sum = alloc->next_birth;
    for (const struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer)
        sum = fold_segment(sum, segment);
    sum = mt_address_space_mix(&alloc->places, sum);
    sum = fold(sum, alloc->policy->fingerprint(alloc));
    mt_biased_lock_give(&alloc->lock);
    return sum;
}
