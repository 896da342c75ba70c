/* The store of the structures for segments, blocks and users; the list of all segments, segments in one piece; and the
 * users of blocks.
 *
 * The store allocates host memory in chunks of hundreds of blocks, and frees it when the allocator is destroyed. So
 * allocating a block usually allocates no host memory. */
#include "alloc/alloc.h"
#include "alloc/block.h"
#include "alloc/follow.h"
#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>

enum { CHUNK_BLOCKS = 256 };

void mt_block_store_grow(struct mt_block_store *store)
{
    struct mt_block *chunk = mt_host_alloc(CHUNK_BLOCKS * sizeof *chunk);
    store->chunks = mt_host_resize(store->chunks, store->chunk_count + 1, sizeof *store->chunks);
    uint64_t first = (uint64_t)store->chunk_count * CHUNK_BLOCKS;
    store->chunks[store->chunk_count++] = chunk;
    assert(store->spare == NULL);
    for (uint32_t i = CHUNK_BLOCKS; i-- > 0;) {
        chunk[i].priority = (uint32_t)mt_splitmix64(first + i);
        chunk[i].link[0] = store->spare;
        store->spare = &chunk[i];
    }
}

void mt_block_store_destroy(struct mt_block_store *store)
{
    for (uint32_t i = 0; i < store->chunk_count; i++)
        free(store->chunks[i]);
    free(store->chunks);
    while (store->spare_segment != NULL) {
        struct mt_segment *segment = store->spare_segment;
        store->spare_segment = segment->newer;
        free(segment);
    }
    while (store->spare_user != NULL) {
        struct mt_user *user = store->spare_user;
        store->spare_user = user->next;
        free(user);
    }
    *store = (struct mt_block_store){0};
}

static struct mt_segment *segment_create(struct mt_block_store *store)
{
    struct mt_segment *segment = store->spare_segment;
    if (segment == NULL)
        return mt_host_alloc(sizeof *segment);
    store->spare_segment = segment->newer;
    return segment;
}

static void segment_destroy(struct mt_block_store *store, struct mt_segment *segment)
{
    segment->newer = store->spare_segment;
    store->spare_segment = segment;
}

/* ---- segments ---- */

static void emit_segment(struct mt_alloc *alloc, mt_event_kind kind, const struct mt_segment *segment, uint64_t offset,
                         uint64_t bytes)
{
    struct mt_event event = {.kind = (uint16_t)kind,
                             .stream = segment->stream,
                             .segment_address = segment->address,
                             .block_bytes = bytes,
                             .offset = offset,
                             .segment = segment->birth};
    mt_alloc_emit(alloc, &event);
}

static void append_segment(struct mt_alloc *alloc, struct mt_segment *segment)
{
    assert(alloc->newest == NULL || (alloc->newest->newer == NULL && alloc->newest->birth < segment->birth));
    if (alloc->newest != NULL)
        alloc->newest->newer = segment;
    else
        alloc->oldest = segment;
    alloc->newest = segment;
}

static void unlink_segment(struct mt_alloc *alloc, struct mt_segment *segment)
{
    assert(segment->older != NULL ? segment->older->newer == segment : alloc->oldest == segment);
    assert(segment->newer != NULL ? segment->newer->older == segment : alloc->newest == segment);
    if (segment->older != NULL)
        segment->older->newer = segment->newer;
    else
        alloc->oldest = segment->newer;
    if (segment->newer != NULL)
        segment->newer->older = segment->older;
    else
        alloc->newest = segment->older;
}

/* Counts a segment that got its first memory (1), or lost its last memory (-1). */
static void count_segment(struct mt_alloc *alloc, const struct mt_segment *segment, int64_t change)
{
    mt_pool_change(&alloc->stats.pools, MT_COUNTED_SEGMENTS, segment->pool, change);
    if (segment->bytes >= alloc->settings.max_split_bytes)
        mt_pool_change(&alloc->stats.pools, MT_COUNTED_OVERSIZE_SEGMENTS, segment->pool, change);
}

void mt_segment_count_mapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes)
{
    struct mt_alloc_stats *stats = &alloc->stats;
    assert(bytes > 0 && bytes % MT_SEGMENT_UNIT == 0 && offset % MT_SEGMENT_UNIT == 0);
    segment->mapped_bytes += bytes;
    assert(segment->mapped_bytes <= segment->bytes && offset + bytes <= segment->bytes);
    stats->reserved_bytes += bytes;
    if (stats->reserved_bytes > stats->peak_reserved_bytes)
        stats->peak_reserved_bytes = stats->reserved_bytes;
    mt_pool_add(&stats->pools, MT_COUNTED_RESERVED_BYTES, segment->pool, bytes);
    if (segment->mapped_bytes == bytes)
        count_segment(alloc, segment, 1);
    emit_segment(alloc, MT_EVENT_SEGMENT_MAP, segment, offset, bytes);
}

void mt_segment_count_unmapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes)
{
    assert(bytes > 0 && bytes % MT_SEGMENT_UNIT == 0 && offset % MT_SEGMENT_UNIT == 0);
    assert(bytes <= segment->mapped_bytes && bytes <= alloc->stats.reserved_bytes);
    segment->mapped_bytes -= bytes;
    alloc->stats.reserved_bytes -= bytes;
    mt_pool_subtract(&alloc->stats.pools, MT_COUNTED_RESERVED_BYTES, segment->pool, bytes);
    if (segment->mapped_bytes == 0)
        count_segment(alloc, segment, -1);
    emit_segment(alloc, MT_EVENT_SEGMENT_UNMAP, segment, offset, bytes);
}

struct mt_segment *mt_segment_add(struct mt_alloc *alloc, const struct mt_segment *like)
{
    assert(like->bytes > 0 && like->bytes % MT_SEGMENT_UNIT == 0 && like->mapped_bytes == 0);
    struct mt_segment *segment = segment_create(&alloc->store);
    *segment = *like;
    segment->older = alloc->newest;
    segment->newer = NULL;
    segment->birth = alloc->next_birth++;
    segment->place = mt_address_space_take(&alloc->places, segment->bytes);
    segment->first = segment->last = mt_block_create(&alloc->store, segment, 0, segment->bytes);
    segment->first->is_hole = segment->is_range;
    segment->first->is_free = !segment->is_range;
    segment->holes = segment->is_range;
    assert(mt_block_is_sound(segment->first));
    append_segment(alloc, segment);
    alloc->stats.segments++;
    return segment;
}

void mt_segment_drop(struct mt_alloc *alloc, struct mt_segment *segment)
{
    assert(segment->first == segment->last && segment->mapped_bytes == 0 && alloc->stats.segments > 0);
    mt_block_destroy(&alloc->store, segment->first);
    mt_address_space_give(&alloc->places, segment->place, segment->bytes);
    unlink_segment(alloc, segment);
    alloc->stats.segments--;
    segment_destroy(&alloc->store, segment);
}

struct mt_block *mt_segment_map(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes)
{
    struct mt_segment like = {.bytes = bytes, .stream = stream, .pool = pool};
    alloc->failure = mt_device_reserve(alloc->device, bytes, &like.address);
    if (alloc->failure != MT_OK)
        return NULL;
    struct mt_segment *segment = mt_segment_add(alloc, &like);
    mt_segment_count_mapped(alloc, segment, 0, bytes);
    return segment->first;
}

void mt_segment_unmap(struct mt_alloc *alloc, struct mt_segment *segment)
{
    assert(!segment->is_range && mt_segment_is_idle(segment) && segment->mapped_bytes == segment->bytes);
    alloc->policy->remove(alloc, segment->first);
    mt_follow_unmapped(alloc, segment);
    mt_device_release(alloc->device, segment->address, segment->bytes);
    mt_segment_count_unmapped(alloc, segment, 0, segment->bytes);
    mt_segment_drop(alloc, segment);
}

/* Returns the cached memory of a segment to the device, until `bytes` are returned. */
static void release_segment(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t bytes)
{
    if (segment->is_range)
        mt_range_release(alloc, segment, bytes);
    else if (mt_segment_is_idle(segment))
        mt_segment_unmap(alloc, segment);
}

uint64_t mt_segments_release(struct mt_alloc *alloc, uint64_t bytes)
{
    uint64_t before = alloc->stats.reserved_bytes, released = 0;
    for (struct mt_segment *segment = alloc->oldest, *next; segment != NULL && released < bytes; segment = next) {
        next = segment->newer;
        if (mt_is_releasable(alloc, segment->stream))
            release_segment(alloc, segment, bytes - released);
        assert(alloc->stats.reserved_bytes <= before);
        released = before - alloc->stats.reserved_bytes;
    }
    return released;
}

void mt_alloc_release_stream(struct mt_alloc *alloc, mt_stream stream)
{
    mt_biased_lock_take(&alloc->lock);
    mt_blocks_end_waiting(alloc);
    for (struct mt_segment *segment = alloc->oldest, *next; segment != NULL; segment = next) {
        next = segment->newer;
        if (segment->stream == stream && mt_is_releasable(alloc, stream))
            release_segment(alloc, segment, UINT64_MAX);
    }
    mt_biased_lock_give(&alloc->lock);
}

/* ---- users ----
 *
 *   own stream    ── take ── write ────────────────── (wait) ── reuse
 *   user's stream        └─ wait ── read ── read ──┐     ▲
 *                                     give: ───────┴─────┘
 *
 * The wait is in the device's queue; the host goes on at once. */

static struct mt_user *user_create(struct mt_block_store *store)
{
    struct mt_user *user = store->spare_user;
    if (user == NULL)
        return mt_host_alloc(sizeof *user);
    store->spare_user = user->next;
    return user;
}

static bool is_used_on(const struct mt_block *block, mt_stream stream)
{
    if (stream == block->segment->stream)
        return true;
    const struct mt_user *user = block->users;
    while (user != NULL && user->stream != stream)
        user = user->next;
    return user != NULL;
}

void mt_alloc_use_on(struct mt_alloc *alloc, struct mt_block *block, mt_stream stream)
{
    mt_biased_lock_take(&alloc->lock);
    assert(mt_block_is_out(block));
    if (!is_used_on(block, stream)) {
        struct mt_user *user = user_create(&alloc->store);
        *user = (struct mt_user){.next = block->users, .stream = stream};
        block->users = user;
    }
    mt_biased_lock_give(&alloc->lock);
}

void mt_block_remove_users(struct mt_alloc *alloc, struct mt_block *block)
{
    while (block->users != NULL) {
        struct mt_user *user = block->users;
        block->users = user->next;
        user->next = alloc->store.spare_user;
        alloc->store.spare_user = user;
    }
}

/* If a queue can't wait for another one, it or its device is broken; then the host waits for everything. */
void mt_block_wait_for_users(struct mt_alloc *alloc, struct mt_block *block)
{
    for (const struct mt_user *user = block->users; user != NULL; user = user->next) {
        assert(user->stream != block->segment->stream);
        if (mt_device_follow(alloc->device, block->segment->stream, user->stream) != MT_OK)
            (void)mt_device_synchronize(alloc->device);
    }
    mt_block_remove_users(alloc, block);
}
