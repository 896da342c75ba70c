#include "trace/store/foreign_memory.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>

/* Memory of a segment. Two pieces of one segment do not touch. */
struct piece {
    struct mt_address_range range;
    struct mt_foreign_segment segment;
};

/* A range whose memory is one segment; `segment` is valid while mapped_bytes is not 0. Invariant: mapped_bytes <= the
 * bytes of the range. */
struct reserved_range {
    struct mt_address_range range;
    uint64_t owner, mapped_bytes;
    struct mt_foreign_segment segment;
};

/* Invariants: pieces do not overlap, nor do reserved ranges; births of segments are below `births`. */
struct mt_foreign_memory {
    struct mt_foreign_events *events; /* borrowed */
    struct mt_address_map pieces;
    struct mt_address_map reserved;
    uint32_t births; /* of the next segment */
};

static bool is_within(struct mt_address_range range, struct mt_address_range outer)
{
    return range.begin >= outer.begin && range.end <= outer.end;
}

static struct mt_address_range common(struct mt_address_range a, struct mt_address_range b)
{
    return (struct mt_address_range){mt_larger(a.begin, b.begin), mt_smaller(a.end, b.end)};
}

void mt_foreign_emit(struct mt_foreign_events *events, struct mt_event event)
{
    event.sequence = events->sequence++;
    event.time_ns = events->time_ns;
    if (events->sink.emit != NULL)
        events->sink.emit(events->sink.context, &event);
}

static void emit_memory(struct mt_foreign_memory *memory, mt_event_kind kind, struct mt_foreign_segment segment,
                        struct mt_address_range range)
{
    mt_foreign_emit(memory->events, (struct mt_event){.kind = (uint16_t)kind,
                                                      .stream = segment.stream,
                                                      .segment_address = segment.address,
                                                      .block_bytes = range.end - range.begin,
                                                      .offset = range.begin - segment.address,
                                                      .segment = segment.birth});
}

struct mt_foreign_memory *mt_foreign_memory_create(struct mt_foreign_events *events)
{
    struct mt_foreign_memory *memory = mt_host_alloc(sizeof *memory);
    memory->events = events;
    mt_address_map_create(&memory->pieces, sizeof(struct piece));
    mt_address_map_create(&memory->reserved, sizeof(struct reserved_range));
    return memory;
}

void mt_foreign_memory_destroy(struct mt_foreign_memory *memory)
{
    mt_address_map_release(&memory->pieces);
    mt_address_map_release(&memory->reserved);
    free(memory);
}

static struct piece *find_piece(const struct mt_foreign_memory *memory, struct mt_address_range range)
{
    return mt_address_map_find(&memory->pieces, range.begin, range.end);
}

static struct reserved_range *find_reserved(const struct mt_foreign_memory *memory, struct mt_address_range range)
{
    return mt_address_map_find(&memory->reserved, range.begin, range.end);
}

/* Returns the range, extended by one address on each side, so that it overlaps ranges that touch it. */
static struct mt_address_range widened(struct mt_address_range range)
{
    return (struct mt_address_range){range.begin - (range.begin > 0), range.end + 1};
}

static bool may_reserve(const struct mt_foreign_memory *memory, struct mt_address_range range, uint64_t owner)
{
    struct mt_address_range rest = range;
    if (find_piece(memory, range) != NULL)
        return false;
    for (const struct reserved_range *other; (other = find_reserved(memory, rest)) != NULL;
         rest.begin = other->range.end)
        if (other->owner != owner || other->mapped_bytes > 0)
            return false;
    return true;
}

bool mt_foreign_memory_reserve(struct mt_foreign_memory *memory, struct mt_address_range range, uint64_t owner)
{
    struct reserved_range whole = {.range = range, .owner = owner};
    struct mt_address_range rest = widened(range);
    if (!may_reserve(memory, range, owner))
        return false;
    for (const struct reserved_range *other; (other = find_reserved(memory, rest)) != NULL;) {
        struct reserved_range found = *other;
        rest.begin = found.range.end;
        if (found.owner != owner || found.mapped_bytes > 0)
            continue;
        whole.range.begin = mt_smaller(whole.range.begin, found.range.begin);
        whole.range.end = mt_larger(whole.range.end, found.range.end);
        mt_address_map_remove(&memory->reserved, found.range.begin);
    }
    mt_address_map_add(&memory->reserved, &whole);
    return true;
}

uint64_t mt_foreign_memory_bytes(const struct mt_foreign_memory *memory, struct mt_address_range range)
{
    uint64_t bytes = 0;
    for (const struct piece *piece; (piece = find_piece(memory, range)) != NULL;) {
        struct mt_address_range part = common(piece->range, range);
        bytes += part.end - part.begin;
        range.begin = part.end;
    }
    return bytes;
}

bool mt_foreign_memory_covers(const struct mt_foreign_memory *memory, struct mt_address_range range,
                              struct mt_foreign_segment *out)
{
    const struct piece *piece = find_piece(memory, range);
    if (piece == NULL || !is_within(range, piece->range))
        return false;
    *out = piece->segment;
    return true;
}

/* Merges the segment's piece that contains the address, if there is one, into `range`, which it touches. */
static void absorb(struct mt_foreign_memory *memory, mt_addr address, uint32_t birth, struct mt_address_range *range)
{
    const struct piece *piece = find_piece(memory, (struct mt_address_range){address, address + 1});
    if (piece == NULL || piece->segment.birth != birth)
        return;
    range->begin = mt_smaller(range->begin, piece->range.begin);
    range->end = mt_larger(range->end, piece->range.end);
    mt_address_map_remove(&memory->pieces, address);
}

static void add_piece(struct mt_foreign_memory *memory, struct mt_foreign_segment segment,
                      struct mt_address_range range)
{
    struct piece piece = {.range = range, .segment = segment};
    assert(find_piece(memory, range) == NULL && segment.birth < memory->births);
    if (range.begin > 0)
        absorb(memory, range.begin - 1, segment.birth, &piece.range);
    absorb(memory, range.end, segment.birth, &piece.range);
    mt_address_map_add(&memory->pieces, &piece);
    emit_memory(memory, MT_EVENT_SEGMENT_MAP, segment, range);
}

struct mt_foreign_segment mt_foreign_memory_map_alone(struct mt_foreign_memory *memory, struct mt_address_range range,
                                                      mt_stream stream)
{
    struct mt_foreign_segment segment = {.address = range.begin, .birth = memory->births++, .stream = stream};
    add_piece(memory, segment, range);
    return segment;
}

void mt_foreign_memory_map(struct mt_foreign_memory *memory, struct mt_address_range range, mt_stream stream)
{
    struct reserved_range *reserved = find_reserved(memory, range);
    if (reserved == NULL || !is_within(range, reserved->range)) {
        mt_foreign_memory_map_alone(memory, range, stream);
        return;
    }
    if (reserved->mapped_bytes == 0)
        reserved->segment =
            (struct mt_foreign_segment){.address = reserved->range.begin, .birth = memory->births++, .stream = stream};
    reserved->mapped_bytes += range.end - range.begin;
    assert(reserved->mapped_bytes <= reserved->range.end - reserved->range.begin);
    add_piece(memory, reserved->segment, range);
}

/* Subtracts from the mapped bytes of the reserved range, if the memory belongs to one. */
static void count_unmapped(struct mt_foreign_memory *memory, struct mt_foreign_segment segment,
                           struct mt_address_range range)
{
    struct reserved_range *reserved = find_reserved(memory, range);
    if (reserved != NULL && reserved->mapped_bytes > 0 && reserved->segment.birth == segment.birth) {
        assert(range.end - range.begin <= reserved->mapped_bytes);
        reserved->mapped_bytes -= range.end - range.begin;
    }
}

/* Adds the rest of a piece on both sides of the unmapped range. */
static void keep_rest(struct mt_foreign_memory *memory, struct piece piece, struct mt_address_range range)
{
    struct piece below = piece, above = piece;
    below.range.end = range.begin;
    above.range.begin = range.end;
    if (below.range.begin < below.range.end)
        mt_address_map_add(&memory->pieces, &below);
    if (above.range.begin < above.range.end)
        mt_address_map_add(&memory->pieces, &above);
}

void mt_foreign_memory_unmap(struct mt_foreign_memory *memory, struct mt_address_range range)
{
    for (const struct piece *found; (found = find_piece(memory, range)) != NULL;) {
        struct piece piece = *found;
        struct mt_address_range part = common(piece.range, range);
        assert(part.begin < part.end);
        mt_address_map_remove(&memory->pieces, piece.range.begin);
        keep_rest(memory, piece, part);
        count_unmapped(memory, piece.segment, part);
        emit_memory(memory, MT_EVENT_SEGMENT_UNMAP, piece.segment, part);
        range.begin = part.end;
    }
}
