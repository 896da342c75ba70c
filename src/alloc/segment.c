/* Segments in one piece, the list of all segments, and the structures that they and their blocks are kept in.
 *
 * Structures come from chunks that are asked for by the hundred and never given back before the allocator's end, so
 * that handing out a block asks the host for nothing. */
#include "alloc/follow.h"
#include "alloc/tiling.h"
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

static void emit_segment(struct mt_alloc *alloc, mt_event_kind kind, const struct mt_segment *segment, uint64_t offset,
                         uint64_t bytes)
{
    struct mt_event event = {.kind = (uint16_t)kind,
                             .stream = segment->stream,
                             .address = segment->address + offset,
                             .block_bytes = bytes,
                             .offset = offset,
                             .segment = segment->birth};
    mt_alloc_emit(alloc, &event);
}

static void append_segment(struct mt_alloc *alloc, struct mt_segment *segment)
{
    if (alloc->newest != NULL)
        alloc->newest->newer = segment;
    else
        alloc->oldest = segment;
    alloc->newest = segment;
}

static void unlink_segment(struct mt_alloc *alloc, struct mt_segment *segment)
{
    if (segment->older != NULL)
        segment->older->newer = segment->newer;
    else
        alloc->oldest = segment->newer;
    if (segment->newer != NULL)
        segment->newer->older = segment->older;
    else
        alloc->newest = segment->older;
}

void mt_segment_count_mapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes)
{
    struct mt_alloc_stats *stats = &alloc->stats;
    segment->mapped_bytes += bytes;
    stats->reserved_bytes += bytes;
    if (stats->reserved_bytes > stats->peak_reserved_bytes)
        stats->peak_reserved_bytes = stats->reserved_bytes;
    emit_segment(alloc, MT_EVENT_SEGMENT_MAP, segment, offset, bytes);
}

void mt_segment_count_unmapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes)
{
    segment->mapped_bytes -= bytes;
    alloc->stats.reserved_bytes -= bytes;
    emit_segment(alloc, MT_EVENT_SEGMENT_UNMAP, segment, offset, bytes);
}

struct mt_segment *mt_segment_add(struct mt_alloc *alloc, const struct mt_segment *like)
{
    struct mt_segment *segment = segment_create(&alloc->store);
    *segment = *like;
    segment->older = alloc->newest;
    segment->newer = NULL;
    segment->birth = alloc->next_birth++;
    segment->first = segment->last = mt_block_create(&alloc->store, segment, 0, segment->bytes);
    segment->first->is_hole = segment->is_range;
    segment->first->is_free = !segment->is_range;
    segment->holes = segment->is_range;
    append_segment(alloc, segment);
    alloc->stats.segments++;
    return segment;
}

void mt_segment_drop(struct mt_alloc *alloc, struct mt_segment *segment)
{
    mt_block_destroy(&alloc->store, segment->first);
    unlink_segment(alloc, segment);
    alloc->stats.segments--;
    segment_destroy(&alloc->store, segment);
}

struct mt_block *mt_segment_map(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes)
{
    struct mt_segment like = {.bytes = bytes, .stream = stream, .pool = pool};
    alloc->growth = mt_device_reserve(alloc->device, bytes, &like.address);
    if (alloc->growth != MT_OK)
        return NULL;
    struct mt_segment *segment = mt_segment_add(alloc, &like);
    mt_segment_count_mapped(alloc, segment, 0, bytes);
    return segment->first;
}

void mt_segment_unmap(struct mt_alloc *alloc, struct mt_segment *segment)
{
    alloc->policy->remove(alloc, segment->first);
    mt_follow_unmapped(alloc, segment);
    mt_device_release(alloc->device, segment->address, segment->bytes);
    mt_segment_count_unmapped(alloc, segment, 0, segment->bytes);
    mt_segment_drop(alloc, segment);
}

uint64_t mt_segments_release(struct mt_alloc *alloc, uint64_t bytes)
{
    uint64_t before = alloc->stats.reserved_bytes, released = 0;
    for (struct mt_segment *segment = alloc->oldest, *next; segment != NULL && released < bytes; segment = next) {
        next = segment->newer;
        if (segment->is_range)
            mt_range_release(alloc, segment, bytes - released);
        else if (mt_segment_is_idle(segment))
            mt_segment_unmap(alloc, segment);
        released = before - alloc->stats.reserved_bytes;
    }
    return released;
}
