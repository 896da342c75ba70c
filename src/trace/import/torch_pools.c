#include "trace/import/torch_pools.h"

#include "base/memory.h"
#include "trace/store/address_map.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

uint32_t mt_torch_pool_find(struct mt_torch_snapshot *snapshot, const struct mt_value *pair)
{
    struct mt_torch_pool pool;
    if (mt_value_count(pair) != 2 || !mt_value_integer(mt_value_at(pair, 0), &pool.first) ||
        !mt_value_integer(mt_value_at(pair, 1), &pool.second))
        return MT_TORCH_POOL_UNSAID;
    if (pool.first == 0 && pool.second == 0)
        return 0;
    for (uint32_t i = 0; i < snapshot->pool_count; i++)
        if (snapshot->pools[i].first == pool.first && snapshot->pools[i].second == pool.second)
            return i + 1;
    if (snapshot->pool_count == MT_TORCH_MOST_POOLS)
        return MT_TORCH_POOL_UNSAID;
    *MT_HOST_ADD(snapshot->pools, snapshot->pool_count) = pool;
    return snapshot->pool_count;
}

/* Memory at its place. */
struct pooled {
    struct mt_address_range range;
    uint32_t pool;
};

/* Sets the pool of an event that does not tell it, walking back from the end. */
static void infer_pool(struct mt_address_map *memory, struct mt_torch_event *event)
{
    const struct pooled *found = mt_address_map_find(memory, event->address, event->address + 1);
    if (event->pool == MT_TORCH_POOL_UNSAID)
        event->pool = found != NULL ? found->pool : 0;
    if (found != NULL && event->action == MT_TORCH_SEGMENT_ALLOC && found->range.begin == event->address)
        mt_address_map_remove(memory, event->address);
}

static void infer_pools(struct mt_torch_snapshot *snapshot)
{
    struct mt_address_map memory;
    mt_address_map_create(&memory, sizeof(struct pooled));
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct mt_torch_segment *segment = &snapshot->segments[i];
        const struct mt_address_range range = {segment->address, segment->address + segment->bytes};
        if (segment->bytes > 0 && mt_address_map_find(&memory, range.begin, range.end) == NULL)
            mt_address_map_add(&memory, &(struct pooled){range, segment->pool});
    }
    for (size_t i = snapshot->event_count; i-- > 0;) {
        struct mt_torch_event *event = &snapshot->events[i];
        if (event->action <= MT_TORCH_SEGMENT_UNMAP)
            infer_pool(&memory, event);
        else if (event->pool == MT_TORCH_POOL_UNSAID)
            event->pool = 0;
    }
    mt_address_map_release(&memory);
}

/* Returns the number of a stream in a pool, which is added if it is new. The default stream of no pool is 0. */
static uint64_t number_stream(struct mt_torch_snapshot *snapshot, uint64_t stream, uint32_t pool)
{
    if (pool == MT_TORCH_POOL_UNSAID)
        pool = 0;
    for (uint32_t i = 0; i < snapshot->stream_count; i++)
        if (snapshot->streams[i].handle == stream && snapshot->streams[i].pool == pool)
            return i;
    if (snapshot->stream_count == MT_TORCH_MOST_STREAMS)
        return snapshot->stream_count - 1;
    struct mt_torch_stream *added = MT_HOST_ADD(snapshot->streams, snapshot->stream_count);
    *added = (struct mt_torch_stream){.handle = stream, .pool = pool};
    if (pool == 0)
        return snapshot->stream_count - 1;
    const struct mt_torch_pool *pair = &snapshot->pools[pool - 1];
    snprintf(added->name, sizeof added->name, "stream %" PRIu32, snapshot->stream_count - 1);
    snprintf(added->words, sizeof added->words, "private pool (%" PRId64 ", %" PRId64 ")", pair->first, pair->second);
    return snapshot->stream_count - 1;
}

void mt_torch_pools_number(struct mt_torch_snapshot *snapshot)
{
    if (snapshot->pool_count == 0)
        return;
    assert(snapshot->stream_count == 0);
    infer_pools(snapshot);
    number_stream(snapshot, 0, 0);
    for (size_t i = 0; i < snapshot->event_count; i++)
        snapshot->events[i].stream = number_stream(snapshot, snapshot->events[i].stream, snapshot->events[i].pool);
    for (size_t i = 0; i < snapshot->segment_count; i++)
        snapshot->segments[i].stream =
            number_stream(snapshot, snapshot->segments[i].stream, snapshot->segments[i].pool);
    for (size_t i = 0; i < snapshot->block_count; i++)
        snapshot->blocks[i].stream = number_stream(snapshot, snapshot->blocks[i].stream, snapshot->blocks[i].pool);
}
