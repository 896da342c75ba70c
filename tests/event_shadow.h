/* The state of an allocator, derived only from its events. An event that does not follow from the ones before
 * is counted as a contradiction. */
#pragma once

#include "base/event.h"

#include <stdbool.h>
#include <string.h>

enum { SHADOW_MOST_SEGMENTS = 4000, SHADOW_MOST_PARTS = 4000, SHADOW_MOST_BLOCKS = 1000 };

/* Memory of a segment: begin <= offset < end. */
struct shadow_part {
    uint32_t segment;
    uint64_t begin, end;
};

/* A segment that was begun. */
struct shadow_segment {
    uint64_t address, mapped_bytes; /* mapped_bytes 0: it ended */
    mt_stream stream;
};

/* Invariants: the parts do not overlap; reserved_bytes is the sum of their bytes, and segment_count counts the segments
 * that have one. */
struct shadow {
    struct shadow_segment segments[SHADOW_MOST_SEGMENTS]; /* by birth */
    struct shadow_part parts[SHADOW_MOST_PARTS];
    uint32_t births;
    int part_count;
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

static inline struct shadow_segment *shadow_segment_of(struct shadow *shadow, const struct mt_event *event)
{
    return &shadow->segments[event->segment % SHADOW_MOST_SEGMENTS];
}

/* Returns the bytes of the part that are in the event's range. */
static inline uint64_t shadow_overlap(const struct shadow_part *part, const struct mt_event *event)
{
    uint64_t begin = event->offset > part->begin ? event->offset : part->begin;
    uint64_t end = event->offset + event->block_bytes < part->end ? event->offset + event->block_bytes : part->end;
    return part->segment == event->segment && begin < end ? end - begin : 0;
}

/* Returns the bytes of the event's range that have memory. */
static inline uint64_t shadow_mapped(const struct shadow *shadow, const struct mt_event *event)
{
    uint64_t bytes = 0;
    for (int i = 0; i < shadow->part_count; i++)
        bytes += shadow_overlap(&shadow->parts[i], event);
    return bytes;
}

static inline void shadow_add_part(struct shadow *shadow, struct shadow_part part)
{
    shadow_expect(shadow, shadow->part_count < SHADOW_MOST_PARTS);
    if (part.begin < part.end && shadow->part_count < SHADOW_MOST_PARTS)
        shadow->parts[shadow->part_count++] = part;
}

/* The first event with a number begins that segment. The next number is 1 more than the number of the last segment. */
static inline void shadow_begin_segment(struct shadow *shadow, const struct mt_event *event)
{
    if (event->segment < shadow->births)
        return;
    shadow_expect(shadow, event->segment == shadow->births && event->offset == 0);
    shadow->births = event->segment + 1;
    *shadow_segment_of(shadow, event) =
        (struct shadow_segment){.address = event->segment_address, .stream = event->stream};
    shadow->segment_count++;
}

static inline void shadow_map(struct shadow *shadow, const struct mt_event *event)
{
    bool grows = event->segment < shadow->births;
    shadow_begin_segment(shadow, event);
    struct shadow_segment *segment = shadow_segment_of(shadow, event);
    shadow_expect(shadow, event->block_bytes > 0 && event->block_bytes % (2 << 20) == 0);
    shadow_expect(shadow, event->segment_address == segment->address && segment->stream == event->stream);
    shadow_expect(shadow, !grows || segment->mapped_bytes > 0);
    shadow_expect(shadow, shadow_mapped(shadow, event) == 0);
    shadow_add_part(shadow, (struct shadow_part){event->segment, event->offset, event->offset + event->block_bytes});
    segment->mapped_bytes += event->block_bytes;
    shadow->reserved_bytes += event->block_bytes;
}

/* Removes the bytes from the parts, which may split one into two. */
static inline void shadow_cut(struct shadow *shadow, const struct mt_event *event)
{
    for (int i = shadow->part_count; i-- > 0;) {
        struct shadow_part part = shadow->parts[i];
        if (shadow_overlap(&part, event) == 0)
            continue;
        shadow->parts[i] = shadow->parts[--shadow->part_count];
        shadow_add_part(shadow, (struct shadow_part){part.segment, part.begin, event->offset});
        shadow_add_part(shadow, (struct shadow_part){part.segment, event->offset + event->block_bytes, part.end});
    }
}

static inline void shadow_unmap(struct shadow *shadow, const struct mt_event *event)
{
    struct shadow_segment *segment = shadow_segment_of(shadow, event);
    shadow_expect(shadow, event->segment_address == segment->address && segment->stream == event->stream);
    shadow_expect(shadow, event->block_bytes > 0 && shadow_mapped(shadow, event) == event->block_bytes);
    for (int i = 0; i < shadow->live_count; i++)
        shadow_expect(shadow, shadow->live[i].segment != event->segment ||
                                  shadow->live[i].offset >= event->offset + event->block_bytes ||
                                  event->offset >= shadow->live[i].offset + shadow->live[i].block_bytes);
    shadow_cut(shadow, event);
    segment->mapped_bytes -= event->block_bytes;
    shadow->segment_count -= segment->mapped_bytes == 0;
    shadow->reserved_bytes -= event->block_bytes;
}

static inline void shadow_alloc(struct shadow *shadow, const struct mt_event *event)
{
    const struct shadow_segment *segment = shadow_segment_of(shadow, event);
    shadow_expect(shadow, event->segment < shadow->births && segment->stream == event->stream);
    shadow_expect(shadow, shadow_mapped(shadow, event) == event->block_bytes);
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
    return a->segment == b->segment && a->offset == b->offset && a->requested_bytes == b->requested_bytes &&
           a->block_bytes == b->block_bytes && a->label == b->label && a->span == b->span && a->stream == b->stream;
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
