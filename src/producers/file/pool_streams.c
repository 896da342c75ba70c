#include "producers/file/pool_streams.h"

#include "trace/store/address_map.h"

#include <assert.h>

/* Memory and its pool. */
struct pooled {
    struct mt_address_range range;
    uint32_t pool;
};

/* Sets the pool of an event that lacks it. Events come in reverse order, from the last to the first. */
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

void mt_pool_streams_number(struct mt_torch_snapshot *snapshot)
{
    if (snapshot->pools.pool_count == 0)
        return;
    assert(snapshot->pools.stream_count == 0);
    infer_pools(snapshot);
    mt_torch_pools_stream(&snapshot->pools, 0, 0);
    for (size_t i = 0; i < snapshot->event_count; i++)
        snapshot->events[i].stream =
            mt_torch_pools_stream(&snapshot->pools, snapshot->events[i].stream, snapshot->events[i].pool);
    for (size_t i = 0; i < snapshot->segment_count; i++)
        snapshot->segments[i].stream =
            mt_torch_pools_stream(&snapshot->pools, snapshot->segments[i].stream, snapshot->segments[i].pool);
    for (size_t i = 0; i < snapshot->block_count; i++)
        snapshot->blocks[i].stream =
            mt_torch_pools_stream(&snapshot->pools, snapshot->blocks[i].stream, snapshot->blocks[i].pool);
}
