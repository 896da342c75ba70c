/* Which blocks were there, from when to when?
 *
 *   checkpoint ──▶ live before the first event ─┐
 *                                               ├──▶ rows, by alloc_event; a free finds its row by the alloc's id
 *   events of the window, in order ─────────────┘
 *
 * What a damaged trace may say and this does not rely on: frees of what is not live are ignored, as the recorder ignores
 * them; blocks whose numbers could lead out of an array are MT_BAD_TRACE. */
#include "base/number_map.h"
#include "trace/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>

/* Blocks under way. Invariants: alloc_event ascends along rows[0..count); by_alloc maps those that are live to their
 * rows. */
struct block_list {
    struct mt_block_row *rows;
    size_t count;
    struct mt_number_map by_alloc;
    struct mt_number_limits limits;
};

/* Event ids: first <= id <= last. */
struct window {
    int64_t first, last;
};

/* The columns that read_block and end_block read. */
#define BLOCK_COLUMNS "id, time_ns, kind, allocation, requested_bytes, block_bytes, offset, segment, label, stream"
enum { ID, TIME_NS, KIND, ALLOCATION, REQUESTED_BYTES, BLOCK_BYTES, OFFSET, SEGMENT, LABEL, STREAM };

static mt_status fail_on_block(const struct mt_block_row *block, const char *what)
{
    return mt_fail(MT_BAD_TRACE, "the trace is damaged: the block of event %" PRId64 " %s", block->alloc_event, what);
}

static mt_status read_sizes(const struct mt_statement *row, struct mt_block_row *block)
{
    mt_status status = mt_query_natural(row, TIME_NS, &block->alloc_ns);
    if (status == MT_OK)
        status = mt_query_natural(row, REQUESTED_BYTES, &block->requested_bytes);
    if (status == MT_OK)
        status = mt_query_natural(row, BLOCK_BYTES, &block->block_bytes);
    if (status == MT_OK)
        status = mt_query_natural(row, OFFSET, &block->offset);
    if (status == MT_OK && block->block_bytes < block->requested_bytes)
        return fail_on_block(block, "is smaller than what was asked for");
    return status;
}

static mt_status read_block(const struct mt_statement *row, const struct mt_number_limits *limits,
                            struct mt_block_row *out)
{
    int64_t segment = mt_statement_integer(row, SEGMENT), stream = mt_statement_integer(row, STREAM);
    *out = (struct mt_block_row){
        .alloc_event = mt_statement_integer(row, ID), .segment = (uint32_t)segment, .stream = (mt_stream)stream};
    if (segment < 0 || segment >= limits->segments)
        return fail_on_block(out, "lies in a segment that there was not");
    if (stream < 0 || stream > UINT16_MAX)
        return fail_on_block(out, "has a stream that there is not");
    mt_status status = mt_query_label_number(row, LABEL, limits, &out->label);
    return status == MT_OK ? read_sizes(row, out) : status;
}

static mt_status begin_block(struct block_list *list, const struct mt_statement *row)
{
    struct mt_block_row block;
    mt_status status = read_block(row, &list->limits, &block);
    if (status != MT_OK)
        return status;
    mt_number_map_put(&list->by_alloc, (uint64_t)block.alloc_event, list->count);
    list->rows = mt_query_room(list->rows, list->count, sizeof *list->rows);
    list->rows[list->count++] = block;
    return MT_OK;
}

static mt_status end_block(struct block_list *list, const struct mt_statement *row)
{
    uint64_t index;
    if (!mt_number_map_take(&list->by_alloc, (uint64_t)mt_statement_integer(row, ALLOCATION), &index))
        return MT_OK;
    list->rows[index].free_event = mt_statement_integer(row, ID);
    return mt_query_natural(row, TIME_NS, &list->rows[index].free_ns);
}

/* The blocks of these alloc events, which ascend if the trace is sound. */
static mt_status add_listed(struct mt_trace *trace, const struct mt_run *run, const int64_t *ids, size_t count,
                            struct block_list *list)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run, "SELECT " BLOCK_COLUMNS " FROM event WHERE ?1 = ?1 AND id = ?2 AND kind = ?3", &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 3, MT_EVENT_ALLOC);
    int64_t previous = run->first_event - 1, end = run->first_event + run->event_count;
    for (size_t i = 0; i < count && status == MT_OK; previous = ids[i++]) {
        bool row = false;
        mt_statement_bind_integer(statement, 2, ids[i]);
        if (ids[i] > previous && ids[i] < end)
            status = mt_statement_step(statement, &row);
        if (status == MT_OK && !row)
            status =
                mt_fail(MT_BAD_TRACE,
                        "the trace is damaged: a checkpoint names event %" PRId64 ", which is no allocation", ids[i]);
        if (status == MT_OK)
            status = begin_block(list, statement);
        mt_statement_reset(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

/* What was live after `event`. */
static mt_status add_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct block_list *list)
{
    int64_t *ids;
    size_t count;
    mt_status status = mt_query_live(trace, run, event, &ids, &count);
    if (status == MT_OK)
        status = add_listed(trace, run, ids, count, list);
    free(ids);
    return status;
}

static mt_status add_window(struct mt_trace *trace, const struct mt_run *run, struct window window,
                            struct block_list *list)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run, "SELECT " BLOCK_COLUMNS " FROM event WHERE ?1 = ?1 AND id >= ?2 AND id <= ?3 ORDER BY id",
        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, window.first);
    mt_statement_bind_integer(statement, 3, window.last);
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row) {
        int64_t kind = mt_statement_integer(statement, KIND);
        if (kind == MT_EVENT_ALLOC)
            status = begin_block(list, statement);
        else if (kind == MT_EVENT_FREE)
            status = end_block(list, statement);
    }
    mt_statement_finalize(statement);
    return status;
}

/* The part of a window that lies in the run. */
static struct window cut_to_run(struct window window, const struct mt_run *run)
{
    int64_t last = run->first_event + run->event_count - 1;
    window.first = window.first < run->first_event ? run->first_event : window.first;
    window.last = window.last > last ? last : window.last;
    return window;
}

/* Asks for what was live after window.first - 1, and for the window's events, if there are any. */
static mt_status read_window(struct mt_trace *trace, const struct mt_run *run, struct window window,
                             struct block_list *list)
{
    mt_status status = mt_database_begin_reading(trace->database);
    if (status != MT_OK)
        return status;
    status = mt_query_number_limits(trace, run, &list->limits);
    if (status == MT_OK)
        status = add_live(trace, run, window.first - 1, list);
    if (status == MT_OK && window.first <= window.last)
        status = add_window(trace, run, window, list);
    mt_database_end_reading(trace->database);
    return status;
}

static mt_status read_blocks(struct mt_trace *trace, const struct mt_run *run, struct window window,
                             struct mt_block_row **out_rows, size_t *out_count)
{
    struct block_list list = {0};
    mt_number_map_create(&list.by_alloc);
    mt_status status = read_window(trace, run, window, &list);
    mt_number_map_release(&list.by_alloc);
    if (status != MT_OK) {
        free(list.rows);
        list = (struct block_list){0};
    }
    *out_rows = list.rows;
    *out_count = list.count;
    return status;
}

mt_status mt_trace_blocks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                          struct mt_block_row **out_rows, size_t *out_count)
{
    *out_rows = NULL;
    *out_count = 0;
    struct window window = cut_to_run((struct window){first_event, last_event}, run);
    if (window.first > window.last)
        return MT_OK;
    return read_blocks(trace, run, window, out_rows, out_count);
}

mt_status mt_trace_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_block_row **out_rows,
                        size_t *out_count)
{
    int64_t last = cut_to_run((struct window){event, event}, run).last;
    return read_blocks(trace, run, (struct window){last + 1, last}, out_rows, out_count);
}
