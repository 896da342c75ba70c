/* The walk through a run's events. Of the run, only the live blocks and segments are held in memory. */
#include "trace/query/walk.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* A segment that has memory. */
struct open_segment {
    mt_addr address;
    uint64_t mapped_bytes;
};

/* The places of an array that are used again: those below `used` that are not in `free`. Invariant: free_count <=
 * used. */
struct slots {
    uint64_t *free;
    size_t free_count, used;
};

/* Invariants: live[i] is the alloc of the live block whose id `by_id` maps to i; segments likewise by number.
 * label_spans has an entry for each label. */
struct mt_walk {
    struct mt_trace *trace;   /* borrowed */
    const struct mt_run *run; /* borrowed */
    struct mt_label_row *labels;
    uint32_t *label_spans;
    struct mt_span_row *spans;
    struct mt_stack_row *stacks;
    size_t label_count, span_count, stack_count;
    struct mt_statement *events, *address;
    int64_t next_event; /* event.id of the next row */
    struct mt_walk_event *live;
    struct slots live_slots;
    struct mt_number_map by_id;
    struct open_segment *segments;
    struct slots segment_slots;
    struct mt_number_map by_number;
};

enum { ID, TIME_NS, KIND, STREAM, LABEL, SPAN, VALUE, BLOCK_BYTES, SEGMENT, OFFSET, ALLOCATION, STACK };

/* Returns a free place, for which *values has room. */
static size_t take_slot(struct slots *slots, void **values, size_t value_bytes)
{
    if (slots->free_count > 0)
        return slots->free[--slots->free_count];
    *values = mt_host_room(*values, slots->used, value_bytes);
    slots->free = mt_host_room(slots->free, slots->used, sizeof *slots->free);
    return slots->used++;
}

static void give_slot(struct slots *slots, size_t slot)
{
    assert(slot < slots->used && slots->free_count < slots->used);
    slots->free[slots->free_count++] = slot;
}

static mt_status fail_on(int64_t id, const char *what)
{
    return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " %s", id, what);
}

static mt_status add_span(struct mt_trace *trace, const struct mt_statement *row, struct mt_span_row **rows,
                          size_t *count)
{
    int64_t id = mt_statement_integer(row, 0), parent = mt_statement_integer(row, 1);
    if (id != (int64_t)*count || parent < 0 || parent >= id)
        return mt_fail(MT_BAD_TRACE,
                       "the trace is damaged: span %" PRId64 " in span %" PRId64 " comes where span %zu is expected",
                       id, parent, *count);
    *MT_HOST_ADD(*rows, *count) = (struct mt_span_row){
        .parent = (uint32_t)parent, .name = mt_query_text(trace, row, 2), .path = mt_query_text(trace, row, 3)};
    return MT_OK;
}

/* Reads the spans of a run: out_rows[number], where number 0 is the root. Every parent is below its span's number. */
static mt_status read_spans(struct mt_trace *trace, const struct mt_run *run, struct mt_span_row **out_rows,
                            size_t *out_count)
{
    mt_status status = MT_OK;
    struct mt_span_row *rows = NULL;
    size_t count = 0;
    *MT_HOST_ADD(rows, count) =
        (struct mt_span_row){.name = mt_trace_keep(trace, ""), .path = mt_trace_keep(trace, "")};
    MT_EACH_ROW (row, status, trace->database, "SELECT id, parent, name, path FROM span WHERE run = ?1 ORDER BY id",
                 MT_BIND_INTEGER(run->id))
        status = add_span(trace, row, &rows, &count);
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}

static mt_status read_label_spans(struct mt_walk *walk)
{
    mt_status status = MT_OK;
    walk->label_spans = mt_host_alloc((walk->label_count + 1) * sizeof *walk->label_spans);
    MT_EACH_ROW (row, status, walk->trace->database, "SELECT id, span FROM label WHERE run = ?1",
                 MT_BIND_INTEGER(walk->run->id)) {
        int64_t label = mt_statement_integer(row, 0), span = mt_statement_integer(row, 1);
        bool is_known = label >= 0 && label < (int64_t)walk->label_count;
        if (is_known && span >= 0 && span < (int64_t)walk->span_count)
            walk->label_spans[label] = (uint32_t)span;
    }
    return status;
}

static mt_status prepare(struct mt_walk *walk)
{
    mt_status status = mt_query_prepare(walk->trace, walk->run,
                                        "SELECT id, time_ns, kind, stream, label, span, requested_bytes, block_bytes,"
                                        " segment, offset, allocation, stack FROM event NOT INDEXED"
                                        " WHERE ?1 = ?1 AND id >= ?2 AND id < ?3 ORDER BY id",
                                        &walk->events);
    MT_THEN(status, mt_query_prepare(walk->trace, walk->run, "SELECT address FROM segment WHERE run = ?1 AND id = ?2",
                                     &walk->address));
    MT_QUERY_BIND(walk->events, walk->run->first_event, mt_query_end(walk->run));
    walk->next_event = walk->run->first_event;
    return status;
}

mt_status mt_walk_begin(struct mt_trace *trace, const struct mt_run *run, struct mt_walk **out)
{
    struct mt_walk *walk = mt_host_alloc(sizeof *walk);
    walk->trace = trace;
    walk->run = run;
    mt_number_map_create(&walk->by_id);
    mt_number_map_create(&walk->by_number);
    mt_status status = mt_database_begin_reading(trace->database);
    if (status == MT_OK) {
        status = mt_trace_labels(trace, run, &walk->labels, &walk->label_count);
        MT_THEN(status, read_spans(trace, run, &walk->spans, &walk->span_count));
        MT_THEN(status, mt_trace_stacks(trace, run, &walk->stacks, &walk->stack_count));
        MT_THEN(status, read_label_spans(walk));
        MT_THEN(status, prepare(walk));
        mt_database_end_reading(trace->database);
    }
    if (status != MT_OK) {
        mt_walk_end(walk);
        walk = NULL;
    }
    *out = walk;
    return status;
}

void mt_walk_end(struct mt_walk *walk)
{
    if (walk == NULL)
        return;
    mt_statement_finalize(walk->events);
    mt_statement_finalize(walk->address);
    mt_number_map_release(&walk->by_id);
    mt_number_map_release(&walk->by_number);
    free(walk->live_slots.free);
    free(walk->segment_slots.free);
    free(walk->live);
    free(walk->segments);
    free(walk->labels);
    free(walk->label_spans);
    free(walk->spans);
    free(walk->stacks);
    free(walk);
}

const struct mt_label_row *mt_walk_labels(const struct mt_walk *walk, size_t *out_count)
{
    *out_count = walk->label_count;
    return walk->labels;
}

const struct mt_span_row *mt_walk_spans(const struct mt_walk *walk, size_t *out_count)
{
    *out_count = walk->span_count;
    return walk->spans;
}

const struct mt_stack_row *mt_walk_stacks(const struct mt_walk *walk, size_t *out_count)
{
    *out_count = walk->stack_count;
    return walk->stacks;
}

uint32_t mt_walk_label_span(const struct mt_walk *walk, uint32_t label)
{
    assert(label < walk->label_count);
    return walk->label_spans[label];
}

static void forget(struct mt_number_map *map, struct slots *slots)
{
    mt_number_map_release(map);
    mt_number_map_create(map);
    slots->free_count = slots->used = 0;
}

void mt_walk_rewind(struct mt_walk *walk)
{
    mt_statement_reset(walk->events);
    walk->next_event = walk->run->first_event;
    forget(&walk->by_id, &walk->live_slots);
    forget(&walk->by_number, &walk->segment_slots);
}

/* Reads a column that holds a number below `count`; NULL is 0. Fails with MT_BAD_TRACE for another: the event
 * `what`. */
static mt_status read_number(const struct mt_statement *row, int column, uint64_t count, const char *what,
                             uint32_t *out)
{
    int64_t number = mt_statement_integer(row, column);
    if (number < 0 || (uint64_t)number >= count)
        return fail_on(mt_statement_integer(row, ID), what);
    *out = (uint32_t)number;
    return MT_OK;
}

static mt_status read_sizes(const struct mt_statement *row, struct mt_walk_event *out)
{
    MT_TRY(mt_query_natural(row, TIME_NS, &out->time_ns));
    MT_TRY(mt_query_natural(row, VALUE, &out->value));
    MT_TRY(mt_query_natural(row, BLOCK_BYTES, &out->block_bytes));
    return mt_query_natural(row, OFFSET, &out->offset);
}

/* Reads the columns of the event's row. */
static mt_status read_row(const struct mt_walk *walk, struct mt_walk_event *out)
{
    const struct mt_statement *row = walk->events;
    uint32_t kind = 0, stream = 0;
    *out = (struct mt_walk_event){.n = mt_statement_integer(row, ID) - walk->run->first_event};
    MT_TRY(read_number(row, KIND, MT_EVENT_KIND_COUNT, "is of a kind that there is not", &kind));
    MT_TRY(read_number(row, STREAM, UINT16_MAX + 1, "has a stream that there is not", &stream));
    MT_TRY(read_number(row, LABEL, walk->label_count, "has a label that there is not", &out->label));
    MT_TRY(read_number(row, SPAN, walk->span_count, "has a span that there is not", &out->span));
    MT_TRY(read_number(row, STACK, walk->stack_count, "has a stack that there is not", &out->stack));
    MT_TRY(read_number(row, SEGMENT, UINT32_MAX, "names a segment that there was not", &out->segment));
    MT_TRY(read_sizes(row, out));
    out->kind = (mt_event_kind)kind;
    out->stream = (mt_stream)stream;
    if (mt_statement_is_null(row, SPAN))
        out->span = walk->label_spans[out->label];
    return MT_OK;
}

/* Begins a segment, at the address in its row. */
static mt_status open_segment(struct mt_walk *walk, const struct mt_walk_event *event, uint64_t *out_slot)
{
    mt_status status = MT_OK;
    mt_statement_bind_integer(walk->address, 2, event->segment);
    bool row = mt_statement_next(walk->address, &status);
    if (status != MT_OK)
        return status;
    if (!row)
        return fail_on(event->n + walk->run->first_event, "maps a segment that has no row");
    void *segments = walk->segments;
    *out_slot = take_slot(&walk->segment_slots, &segments, sizeof *walk->segments);
    walk->segments = segments;
    walk->segments[*out_slot] = (struct open_segment){.address = (mt_addr)mt_statement_integer(walk->address, 0)};
    mt_statement_reset(walk->address);
    mt_number_map_put(&walk->by_number, event->segment, *out_slot);
    return MT_OK;
}

static mt_status map_segment(struct mt_walk *walk, struct mt_walk_event *event)
{
    uint64_t slot = 0;
    mt_status status = MT_OK;
    if (!mt_number_map_get(&walk->by_number, event->segment, &slot))
        status = open_segment(walk, event, &slot);
    if (status != MT_OK)
        return status;
    walk->segments[slot].mapped_bytes += event->block_bytes;
    event->address = walk->segments[slot].address + event->offset;
    return MT_OK;
}

static mt_status unmap_segment(struct mt_walk *walk, struct mt_walk_event *event)
{
    uint64_t slot;
    if (!mt_number_map_get(&walk->by_number, event->segment, &slot))
        return fail_on(event->n + walk->run->first_event, "unmaps a segment that is not mapped");
    struct open_segment *segment = &walk->segments[slot];
    event->address = segment->address + event->offset;
    segment->mapped_bytes -= event->block_bytes < segment->mapped_bytes ? event->block_bytes : segment->mapped_bytes;
    if (segment->mapped_bytes == 0) {
        mt_number_map_take(&walk->by_number, event->segment, &slot);
        give_slot(&walk->segment_slots, slot);
    }
    return MT_OK;
}

static mt_status begin_block(struct mt_walk *walk, struct mt_walk_event *event)
{
    uint64_t segment;
    if (!mt_number_map_get(&walk->by_number, event->segment, &segment))
        return fail_on(event->n + walk->run->first_event, "is in a segment that is not mapped");
    event->id = event->n;
    event->alloc_ns = event->time_ns;
    event->address = walk->segments[segment].address + event->offset;
    assert(event->id >= 0 && segment < walk->segment_slots.used);
    void *live = walk->live;
    size_t slot = take_slot(&walk->live_slots, &live, sizeof *walk->live);
    walk->live = live;
    walk->live[slot] = *event;
    mt_number_map_put(&walk->by_id, (uint64_t)event->id, slot);
    return MT_OK;
}

/* Completes a free with the place of its alloc, and the label that the block has by then. False if it ends no live
 * block. */
static bool end_block(struct mt_walk *walk, struct mt_walk_event *event)
{
    uint64_t slot,
        id = (uint64_t)mt_query_position(mt_statement_integer(walk->events, ALLOCATION), walk->run->first_event);
    if (!mt_number_map_take(&walk->by_id, id, &slot))
        return false;
    struct mt_walk_event begun = walk->live[slot];
    give_slot(&walk->live_slots, slot);
    begun.n = event->n;
    begun.kind = event->kind;
    begun.time_ns = event->time_ns;
    *event = begun;
    return true;
}

/* Completes a relabel with the place and the bytes of its alloc, whatever its own row says, and gives the live block
 * its label. False if that is not live. */
static bool relabel_block(struct mt_walk *walk, struct mt_walk_event *event)
{
    uint64_t slot,
        id = (uint64_t)mt_query_position(mt_statement_integer(walk->events, ALLOCATION), walk->run->first_event);
    if (!mt_number_map_get(&walk->by_id, id, &slot))
        return false;
    struct mt_walk_event *block = &walk->live[slot];
    event->old_label = block->label;
    event->old_span = block->span;
    block->label = event->label;
    block->span = event->span;
    event->id = block->id;
    event->alloc_ns = block->alloc_ns;
    event->address = block->address;
    event->block_bytes = block->block_bytes;
    event->value = block->value;
    event->offset = block->offset;
    event->segment = block->segment;
    event->stream = block->stream;
    return true;
}

/* Completes an event. *out_counts is false for one that is passed over. */
static mt_status complete(struct mt_walk *walk, struct mt_walk_event *event, bool *out_counts)
{
    *out_counts = true;
    switch (event->kind) {
    case MT_EVENT_SEGMENT_MAP:
        return map_segment(walk, event);
    case MT_EVENT_SEGMENT_UNMAP:
        return unmap_segment(walk, event);
    case MT_EVENT_ALLOC:
        return begin_block(walk, event);
    case MT_EVENT_FREE:
        *out_counts = end_block(walk, event);
        return MT_OK;
    case MT_EVENT_RELABEL:
        *out_counts = relabel_block(walk, event);
        return MT_OK;
    default:
        return MT_OK;
    }
}

/* Steps to the next row. Fails if an event is missing before it. */
static mt_status step(struct mt_walk *walk, bool *out_more)
{
    MT_TRY(mt_statement_step(walk->events, out_more));
    const int64_t id = *out_more ? mt_statement_integer(walk->events, ID) : mt_query_end(walk->run);
    if (id != walk->next_event)
        return fail_on(walk->next_event, "is missing");
    walk->next_event += *out_more;
    return MT_OK;
}

mt_status mt_walk_next(struct mt_walk *walk, struct mt_walk_event *out, bool *out_more)
{
    bool counts = false;
    while (!counts) {
        struct mt_walk_event event;
        MT_TRY(step(walk, out_more));
        if (!*out_more)
            break;
        MT_TRY(read_row(walk, &event));
        MT_TRY(complete(walk, &event, &counts));
        *out = event;
    }
    return MT_OK;
}

static int compare_addresses(const void *left, const void *right)
{
    const struct mt_walk_event *a = left, *b = right;
    return MT_COMPARE(a->address, b->address);
}

struct mt_walk_event *mt_walk_live(const struct mt_walk *walk, size_t *out_count)
{
    struct mt_walk_event *live = mt_host_alloc((walk->by_id.count + 1) * sizeof *live);
    size_t count = 0;
    for (size_t i = 0; i <= walk->by_id.mask; i++)
        if (walk->by_id.pairs[i].key != MT_NUMBER_MAP_NO_KEY)
            live[count++] = walk->live[walk->by_id.pairs[i].value];
    assert(count == walk->by_id.count);
    qsort(live, count, sizeof *live, compare_addresses);
    *out_count = count;
    return live;
}

/* The last event that did more than give back memory. */
static const char last_state_sql[] = "SELECT id FROM event NOT INDEXED WHERE ?1 = ?1 AND id >= ?2 AND id < ?3 AND kind "
                                     "IN (?4, ?5, ?6, ?7) ORDER BY id DESC LIMIT 1";

mt_status mt_trace_last_state(struct mt_trace *trace, const struct mt_run *run, int64_t *out_event)
{
    struct mt_block_row *live = NULL;
    size_t count = 0;
    *out_event = mt_query_end(run) - 1;
    mt_status status = run->event_count > 0 ? mt_trace_live(trace, run, *out_event, &live, &count) : MT_OK;
    free(live);
    if (status != MT_OK || count > 0)
        return status;
    *out_event = run->first_event - 1;
    MT_EACH_ROW (row, status, trace->database, last_state_sql, MT_BIND_INTEGER(run->id),
                 MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)),
                 MT_BIND_INTEGER(MT_EVENT_SEGMENT_MAP), MT_BIND_INTEGER(MT_EVENT_ALLOC), MT_BIND_INTEGER(MT_EVENT_OOM),
                 MT_BIND_INTEGER(MT_EVENT_STEP_END))
        *out_event = mt_statement_integer(row, 0);
    return status;
}
