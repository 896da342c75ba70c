/* The state of an allocator, derived from nothing but its events; any event that does not follow from the ones before
 * it is counted as a contradiction. */
#ifndef MT_TESTS_EVENT_SHADOW_H
#define MT_TESTS_EVENT_SHADOW_H

#include "base/event.h"

#include <stdbool.h>
#include <string.h>

enum { SHADOW_MOST_SEGMENTS = 4000, SHADOW_MOST_BLOCKS = 1000 };

struct shadow {
    struct mt_event segments[SHADOW_MOST_SEGMENTS]; /* by birth; block_bytes 0: not mapped */
    uint32_t births;
    struct mt_event live[SHADOW_MOST_BLOCKS];
    int live_count;
    uint64_t next_sequence, last_time_ns;
    uint64_t reserved_bytes, allocated_bytes, requested_bytes, segment_count, ooms;
    int contradictions;
};

static inline void shadow_expect(struct shadow *shadow, bool condition)
{
    shadow->contradictions += !condition;
}

static inline void shadow_map(struct shadow *shadow, const struct mt_event *event)
{
    shadow_expect(shadow, event->segment == shadow->births && event->block_bytes % (2 << 20) == 0);
    shadow->segments[shadow->births++ % SHADOW_MOST_SEGMENTS] = *event;
    shadow->reserved_bytes += event->block_bytes;
    shadow->segment_count++;
}

static inline void shadow_unmap(struct shadow *shadow, const struct mt_event *event)
{
    struct mt_event *segment = &shadow->segments[event->segment % SHADOW_MOST_SEGMENTS];
    shadow_expect(shadow, segment->block_bytes == event->block_bytes && segment->address == event->address &&
                              segment->stream == event->stream);
    for (int i = 0; i < shadow->live_count; i++)
        shadow_expect(shadow, shadow->live[i].segment != event->segment);
    segment->block_bytes = 0;
    shadow->reserved_bytes -= event->block_bytes;
    shadow->segment_count--;
}

static inline void shadow_alloc(struct shadow *shadow, const struct mt_event *event)
{
    const struct mt_event *segment = &shadow->segments[event->segment % SHADOW_MOST_SEGMENTS];
    shadow_expect(shadow, event->segment < shadow->births && segment->stream == event->stream);
    shadow_expect(shadow, event->offset + event->block_bytes <= segment->block_bytes);
    shadow_expect(shadow, event->address == segment->address + event->offset);
    shadow_expect(shadow, event->requested_bytes > 0 && event->requested_bytes <= event->block_bytes);
    shadow_expect(shadow, event->offset % 512 == 0 && event->block_bytes % 512 == 0);
    for (int i = 0; i < shadow->live_count; i++) {
        const struct mt_event *other = &shadow->live[i];
        shadow_expect(shadow, other->segment != event->segment || other->offset >= event->offset + event->block_bytes ||
                                  event->offset >= other->offset + other->block_bytes);
    }
    shadow->live[shadow->live_count++] = *event;
    shadow->allocated_bytes += event->block_bytes;
    shadow->requested_bytes += event->requested_bytes;
}

static inline bool shadow_same_block(const struct mt_event *a, const struct mt_event *b)
{
    return a->segment == b->segment && a->offset == b->offset && a->address == b->address &&
           a->requested_bytes == b->requested_bytes && a->block_bytes == b->block_bytes && a->label == b->label &&
           a->span == b->span && a->stream == b->stream;
}

static inline void shadow_free(struct shadow *shadow, const struct mt_event *event)
{
    int i = 0;
    while (i < shadow->live_count && !shadow_same_block(&shadow->live[i], event))
        i++;
    shadow_expect(shadow, i < shadow->live_count);
    if (i == shadow->live_count)
        return;
    shadow->live[i] = shadow->live[--shadow->live_count];
    shadow->allocated_bytes -= event->block_bytes;
    shadow->requested_bytes -= event->requested_bytes;
}

static inline void shadow_apply(struct shadow *shadow, const struct mt_event *event)
{
    shadow_expect(shadow, event->sequence == shadow->next_sequence++);
    shadow_expect(shadow, event->time_ns >= shadow->last_time_ns);
    shadow->last_time_ns = event->time_ns;
    switch (event->kind) {
    case MT_EVENT_SEGMENT_MAP:
        shadow_map(shadow, event);
        return;
    case MT_EVENT_SEGMENT_UNMAP:
        shadow_unmap(shadow, event);
        return;
    case MT_EVENT_ALLOC:
        shadow_alloc(shadow, event);
        return;
    case MT_EVENT_FREE:
        shadow_free(shadow, event);
        return;
    case MT_EVENT_OOM:
        shadow->ooms++;
        return;
    default:
        shadow_expect(shadow, false);
    }
}

#endif
