#include "producers/file/profile_cache.h"

#include "base/memory.h"
#include "producers/file/import_reader.h"

#include <assert.h>
#include <stdlib.h>

/* Returns the cached bytes after an event; `before`, the cached bytes until then, if the event does not report them. */
static uint64_t cached_after(const struct mt_torch_event *event, uint64_t before)
{
    const struct mt_value *args = mt_value_find(event->event, "args");
    int64_t reserved, allocated;
    if (!mt_value_integer(mt_value_find(args, "Total Reserved"), &reserved) || reserved < 0 ||
        !mt_value_integer(mt_value_find(args, "Total Allocated"), &allocated) || allocated < 0)
        return before;
    uint64_t cached = reserved > allocated ? (uint64_t)(reserved - allocated) : 0;
    return cached <= MT_IMPORT_MOST_BYTES ? cached : before;
}

/* Makes the event that changes the cache from one size to another, at the time of an event. */
static struct mt_torch_event change(const struct mt_torch_event *event, uint64_t from, uint64_t to)
{
    static const struct mt_value nobody;
    return (struct mt_torch_event){.action = to > from ? MT_TORCH_SEGMENT_MAP : MT_TORCH_SEGMENT_UNMAP,
                                   .address = MT_PROFILE_CACHE_ADDRESS + (to > from ? from : to),
                                   .bytes = to > from ? to - from : from - to,
                                   .time_us = event->time_us,
                                   .frames = &nobody,
                                   .is_derived = true};
}

/* Adds the cache's events to the events of the file. The cache shrinks before an event and grows after it, so that the
 * sum never exceeds the reserved memory. Returns the cache's size at the end. */
static uint64_t add_changes(const struct mt_torch_snapshot *snapshot, struct mt_torch_event *out, size_t *out_count)
{
    uint64_t cached = cached_after(&snapshot->events[0], 0);
    for (size_t i = 0; i < snapshot->event_count; i++) {
        const struct mt_torch_event *event = &snapshot->events[i];
        uint64_t next = cached_after(event, cached);
        if (next < cached)
            out[(*out_count)++] = change(event, cached, next);
        out[(*out_count)++] = *event;
        if (next > cached)
            out[(*out_count)++] = change(event, cached, next);
        cached = next;
    }
    assert(*out_count <= 2 * snapshot->event_count);
    return cached;
}

void mt_profile_cache_add(struct mt_torch_snapshot *snapshot)
{
    assert(snapshot->segment_count == 0 && snapshot->state_event == snapshot->event_count);
    struct mt_torch_event *events = mt_host_alloc((2 * snapshot->event_count + 1) * sizeof *events);
    size_t count = 0;
    uint64_t cached = snapshot->event_count > 0 ? add_changes(snapshot, events, &count) : 0;
    free(snapshot->events);
    snapshot->events = events;
    snapshot->event_count = snapshot->state_event = count;
    if (cached == 0)
        return;
    snapshot->segments = mt_host_alloc(sizeof *snapshot->segments);
    snapshot->segments[snapshot->segment_count++] =
        (struct mt_torch_segment){.address = MT_PROFILE_CACHE_ADDRESS, .bytes = cached, .is_expandable = true};
}
