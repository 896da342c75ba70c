/* Segments that are ranges of addresses: they grow at their end, and can release any page that is entirely free.
 *
 *   ├ out ┼ free ┼ out ┼ hole ┼ out ┼ free ┼────── hole ──────┤
 *                                          ▲                  ▲
 *                                   memory so far        the range's end
 *
 * Addresses cost nothing, so a range is as large as the device's capacity. New memory joins the free block at its end,
 * so there is no rest that is too small for the next request. Holes appear only when the device refuses memory, and are
 * filled again at the place that needs the fewest pages. */
#include "alloc/block.h"

/* The addresses of one range. A card has room for ranges of many streams. */
static const uint64_t MOST_BYTES = UINT64_C(1) << 43;

/* ---- growing ---- */

/* Maps memory at the beginning of a hole, at most `bytes` (whole pages). Returns the resulting free block, merged with
 * its free neighbours, in the index; NULL if the device refuses. */
static struct mt_block *fill(struct mt_alloc *alloc, struct mt_block *hole, uint64_t bytes)
{
    struct mt_segment *segment = hole->segment;
    assert(hole->is_hole && mt_block_is_sound(hole) && bytes > 0 && bytes % MT_SEGMENT_UNIT == 0);
    bytes = mt_smaller(bytes, hole->bytes);
    alloc->failure = mt_device_range_map(alloc->device, segment->address + hole->offset, bytes);
    if (alloc->failure != MT_OK)
        return NULL;
    if (bytes < hole->bytes)
        mt_block_split(alloc, hole, bytes);
    hole->is_hole = false;
    hole->is_free = true;
    assert(segment->holes > 0);
    segment->holes--;
    mt_segment_count_mapped(alloc, segment, hole->offset, bytes);
    return alloc->policy->give(alloc, hole);
}

/* Fills a hole, or the holes after a free block, until the free block has `bytes`, for which there is room. Returns it,
 * not in the index; NULL if the device refuses. */
static struct mt_block *fill_up(struct mt_alloc *alloc, struct mt_block *block, uint64_t bytes)
{
    if (block->is_hole)
        block = fill(alloc, block, mt_whole_units(block->segment, bytes));
    while (block != NULL && block->bytes < bytes)
        block = fill(alloc, block->after, mt_whole_units(block->segment, bytes - block->bytes));
    if (block != NULL)
        alloc->policy->remove(alloc, block);
    assert(block == NULL || (block->is_free && block->bytes >= bytes));
    return block;
}

/* Returns how much of the `bytes` from the beginning of `block` on has no memory; UINT64_MAX if they include an
 * allocated block. */
static uint64_t missing_bytes(const struct mt_block *block, uint64_t bytes)
{
    uint64_t missing = 0;
    for (; block != NULL && (block->is_free || block->is_hole); block = block->after) {
        if (block->is_hole)
            missing += mt_whole_units(block->segment, mt_smaller(block->bytes, bytes));
        if (block->bytes >= bytes)
            return missing;
        bytes -= block->bytes;
    }
    return UINT64_MAX;
}

/* A place for growth. */
struct place {
    struct mt_block *block;
    uint64_t missing;
};

static void consider(struct place *best, struct mt_block *block, uint64_t bytes)
{
    uint64_t missing = missing_bytes(block, bytes);
    if (missing < best->missing)
        *best = (struct place){block, missing};
}

/* Considers every place of a range for growth. If its end is the only hole, it is the only place. */
static void search(struct place *best, const struct mt_segment *segment, uint64_t bytes)
{
    struct mt_block *last = segment->last;
    if (segment->holes == 1 && last->is_hole) {
        consider(best, last->before != NULL && last->before->is_free ? last->before : last, bytes);
        return;
    }
    for (struct mt_block *block = segment->first; block != NULL; block = block->after)
        if (block->before == NULL || !(block->before->is_free || block->before->is_hole))
            consider(best, block, bytes);
}

/* Opens a range and maps its first memory. Returns its free block, not in the index; NULL if the device has no more
 * addresses or memory, or if `bytes` exceeds the size of a range. */
static struct mt_block *open_range(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes,
                                   uint64_t unit_bytes)
{
    struct mt_segment like = {.unit_bytes = unit_bytes, .stream = stream, .pool = pool, .is_range = true};
    like.bytes = mt_whole_units(&like, mt_smaller(alloc->device->capacity_bytes, MOST_BYTES));
    if (bytes > like.bytes)
        return NULL;
    alloc->failure = mt_device_range_open(alloc->device, like.bytes, &like.address);
    if (alloc->failure != MT_OK)
        return NULL;
    struct mt_segment *segment = mt_segment_add(alloc, &like);
    struct mt_block *block = fill_up(alloc, segment->first, bytes);
    if (block != NULL)
        return block;
    alloc->next_birth--; /* no event uses it */
    mt_segment_drop(alloc, segment);
    mt_device_range_close(alloc->device, like.address, like.bytes);
    return NULL;
}

struct mt_block *mt_range_grow(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes,
                               uint64_t unit_bytes)
{
    struct place best = {.missing = UINT64_MAX};
    for (struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer)
        if (segment->is_range && segment->stream == stream && segment->pool == pool)
            search(&best, segment, bytes);
    return best.block != NULL ? fill_up(alloc, best.block, bytes) : open_range(alloc, stream, pool, bytes, unit_bytes);
}

/* ---- releasing ---- */

static void merge_holes(struct mt_alloc *alloc, struct mt_block *hole)
{
    if (hole->after != NULL && hole->after->is_hole)
        mt_block_absorb_after(alloc, hole);
    if (hole->before != NULL && hole->before->is_hole)
        mt_block_absorb_after(alloc, hole->before);
}

/* Unmaps a free block of whole pages outside the index, which becomes a hole. */
static void unmap(struct mt_alloc *alloc, struct mt_block *block)
{
    struct mt_segment *segment = block->segment;
    assert(block->is_free && block->offset % MT_SEGMENT_UNIT == 0 && block->bytes % MT_SEGMENT_UNIT == 0);
    mt_device_range_unmap(alloc->device, segment->address + block->offset, block->bytes);
    block->is_free = false;
    block->is_hole = true;
    segment->holes++;
    mt_segment_count_unmapped(alloc, segment, block->offset, block->bytes);
    merge_holes(alloc, block);
    assert(segment->holes > 0);
}

/* Returns the last whole units of a free block to the device, at most `bytes` rounded up. Returns their bytes. */
static uint64_t give_back(struct mt_alloc *alloc, struct mt_block *block, uint64_t bytes)
{
    const struct mt_segment *range = block->segment;
    uint64_t begin = mt_whole_units(range, block->offset);
    uint64_t end = (block->offset + block->bytes) / range->unit_bytes * range->unit_bytes;
    if (begin >= end)
        return 0;
    if (bytes < end - begin)
        begin = end - mt_whole_units(range, bytes);
    alloc->policy->remove(alloc, block);
    struct mt_block_part pages = {.skip = begin - block->offset, .bytes = end - begin};
    unmap(alloc, mt_block_cut(alloc, block, pages, alloc->policy->insert));
    return end - begin;
}

uint64_t mt_range_release(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t bytes)
{
    uint64_t released = 0;
    assert(segment->is_range);
    for (struct mt_block *block = segment->last, *before; block != NULL && released < bytes; block = before) {
        before = block->before; /* never free; if it is a hole, it absorbs the new one and remains */
        if (block->is_free)
            released += give_back(alloc, block, bytes - released);
    }
    if (segment->mapped_bytes > 0)
        return released;
    assert(segment->holes == 1 && segment->first->is_hole);
    mt_device_range_close(alloc->device, segment->address, segment->bytes);
    mt_segment_drop(alloc, segment);
    return released;
}
