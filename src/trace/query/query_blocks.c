/* Queries about blocks: those that were live in a window of a run's events, or after one event.
 *
 *   checkpoint ──▶ live before the first event ─┐
 *                                               ├──▶ rows, by alloc_event; a free finds its row by the alloc's id
 *   events of the window, in order ─────────────┘
 *
 * In a damaged trace, frees of blocks that are not live are ignored, as the recorder ignores them. Blocks whose numbers
 * could lead out of an array are MT_BAD_TRACE. */
#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* A list of ids, ascending unless said otherwise. */
struct ids {
    int64_t *data;
    size_t count;
};

static void ids_add(struct ids *ids, int64_t id)
{
    *MT_HOST_ADD(ids->data, ids->count) = id;
}

/* Reads one unsigned LEB128 number; false if the bytes end within it or it does not fit. */
static bool read_number(const unsigned char **bytes, const unsigned char *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; *bytes < end && shift < 63; shift += 7) {
        unsigned char byte = *(*bytes)++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0)
            return true;
    }
    return false;
}

/* Decodes checkpoint.live: differences of ascending ids, the first from run.first_event. */
static mt_status decode(const void *blob, size_t blob_bytes, int64_t first_event, struct ids *live)
{
    const unsigned char *bytes = blob, *end = bytes + blob_bytes;
    uint64_t id = (uint64_t)first_event, difference;
    while (bytes < end) {
        if (!read_number(&bytes, end, &difference))
            return mt_fail(MT_BAD_TRACE, "a checkpoint is damaged");
        id += difference;
        ids_add(live, (int64_t)id);
    }
    return MT_OK;
}

/* Reads the last checkpoint up to *event, and sets *event to its event. Without one, sets it to just before the run. */
static mt_status read_checkpoint(struct mt_trace *trace, const struct mt_run *run, int64_t *event, struct ids *live)
{
    mt_status status = MT_OK;
    int64_t last = *event;
    *event = run->first_event - 1;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT event, live FROM checkpoint WHERE run = ?1 AND event <= ?2 ORDER BY event DESC LIMIT 1",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(last)) {
        size_t bytes;
        const void *blob = mt_statement_blob(row, 1, &bytes);
        *event = mt_statement_integer(row, 0);
        status = decode(blob, bytes, run->first_event, live);
    }
    return status;
}

/* Reads the allocs and frees with after < id <= last. `ended` gets the ids of the allocs that frees end, in no
 * order. */
static mt_status replay(struct mt_trace *trace, const struct mt_run *run, int64_t after, int64_t last, struct ids *live,
                        struct ids *ended)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT id, allocation, kind = ?4 FROM event NOT INDEXED WHERE ?1 = ?1 AND id > ?2 AND id <= ?3 AND "
                 "kind IN (?4, ?5)"
                 " ORDER BY id",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(after), MT_BIND_INTEGER(last),
                 MT_BIND_INTEGER(MT_EVENT_ALLOC), MT_BIND_INTEGER(MT_EVENT_FREE)) {
        bool is_alloc = mt_statement_integer(row, 2) != 0;
        ids_add(is_alloc ? live : ended, mt_statement_integer(row, is_alloc ? 0 : 1));
    }
    return status;
}

/* Removes the ended ids from the live ones. */
static void subtract(struct ids *live, struct ids *ended)
{
    if (ended->count == 0)
        return;
    qsort(ended->data, ended->count, sizeof *ended->data, mt_compare_int64);
    size_t kept = 0, next = 0;
    for (size_t i = 0; i < live->count; i++) {
        while (next < ended->count && ended->data[next] < live->data[i])
            next++;
        if (next == ended->count || ended->data[next] != live->data[i])
            live->data[kept++] = live->data[i];
    }
    assert(kept <= live->count);
    live->count = kept;
}

mt_status mt_query_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, int64_t **out_ids,
                        size_t *out_count)
{
    struct ids live = {0}, ended = {0};
    int64_t checkpoint = event;
    mt_status status = read_checkpoint(trace, run, &checkpoint, &live);
    MT_THEN(status, replay(trace, run, checkpoint, event, &live, &ended));
    if (status == MT_OK)
        subtract(&live, &ended);
    free(ended.data);
    return mt_query_hand_over(status, live.data, live.count, out_ids, out_count);
}

/* Blocks under way, which `visitor` gets. Invariants: the alloc_event of visited rows ascends, up to last_event;
 * total_bytes is the sum of their block_bytes; by_alloc maps the blocks that are live to the numbers of their rows,
 * which are below count. */
struct block_walk {
    const struct mt_block_visitor *visitor;
    size_t count;
    int64_t last_event;
    uint64_t total_bytes;
    struct mt_number_map by_alloc;
    struct mt_number_limits limits;
    struct mt_row_visitor begins, ends, relabels; /* functions of SQL that get the rows of allocs, frees and relabels */
};

/* Event ids: first <= id <= last. */
struct window {
    int64_t first, last;
};

/* The arguments of the visitors. */
#define BEGIN_COLUMNS "id, time_ns, requested_bytes, block_bytes, offset, segment, label, stream"
enum { BEGIN_ID, BEGIN_NS, BEGIN_REQUESTED, BEGIN_BYTES, BEGIN_OFFSET, BEGIN_SEGMENT, BEGIN_LABEL, BEGIN_STREAM };
#define END_COLUMNS "id, time_ns, allocation"
enum { END_ID, END_NS, END_ALLOCATION };
#define RELABEL_COLUMNS "id, time_ns, allocation, label"
enum { RELABEL_ID, RELABEL_NS, RELABEL_ALLOCATION, RELABEL_LABEL };

static mt_status fail_on_event(int64_t event, const char *what)
{
    return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " %s", event, what);
}

static mt_status read_sizes(const struct mt_row *row, struct mt_block_row *block)
{
    MT_TRY(mt_query_row_natural(row, BEGIN_NS, &block->alloc_ns));
    MT_TRY(mt_query_row_natural(row, BEGIN_REQUESTED, &block->requested_bytes));
    MT_TRY(mt_query_row_natural(row, BEGIN_BYTES, &block->block_bytes));
    MT_TRY(mt_query_row_natural(row, BEGIN_OFFSET, &block->offset));
    return block->block_bytes >= block->requested_bytes
               ? MT_OK
               : fail_on_event(block->alloc_event, "handed out less than was requested");
}

static mt_status read_block(const struct mt_row *row, const struct mt_number_limits *limits, struct mt_block_row *out)
{
    int64_t segment = mt_row_integer(row, BEGIN_SEGMENT), label = mt_row_integer(row, BEGIN_LABEL);
    int64_t stream = mt_row_integer(row, BEGIN_STREAM);
    *out = (struct mt_block_row){.alloc_event = mt_row_integer(row, BEGIN_ID),
                                 .segment = (uint32_t)segment,
                                 .label = (uint32_t)label,
                                 .stream = (mt_stream)stream};
    if (segment < 0 || segment >= limits->segments)
        return fail_on_event(out->alloc_event, "names a segment that there was not");
    if (label < 0 || label >= limits->labels)
        return fail_on_event(out->alloc_event, "has a label that there is not");
    if (stream < 0 || stream > UINT16_MAX)
        return fail_on_event(out->alloc_event, "has a stream that there is not");
    return read_sizes(row, out);
}

static mt_status begin_block(void *context, const struct mt_row *row)
{
    struct block_walk *walk = context;
    struct mt_block_row block;
    MT_TRY(read_block(row, &walk->limits, &block));
    if (walk->count > 0 && block.alloc_event <= walk->last_event)
        return fail_on_event(block.alloc_event, "does not come in its order");
    if (block.block_bytes > INT64_MAX - walk->total_bytes)
        return fail_on_event(block.alloc_event, "makes the blocks of its run sum to 2^63 bytes or more");
    walk->total_bytes += block.block_bytes;
    walk->last_event = block.alloc_event;
    mt_number_map_put(&walk->by_alloc, (uint64_t)block.alloc_event, walk->count++);
    assert(walk->by_alloc.count <= walk->count && walk->total_bytes <= INT64_MAX);
    walk->visitor->begin(walk->visitor->context, &block);
    return MT_OK;
}

static mt_status end_block(void *context, const struct mt_row *row)
{
    struct block_walk *walk = context;
    struct mt_block_change change = {.event = mt_row_integer(row, END_ID)};
    uint64_t index;
    if (!mt_number_map_take(&walk->by_alloc, (uint64_t)mt_row_integer(row, END_ALLOCATION), &index))
        return MT_OK;
    assert(index < walk->count);
    change.row = (size_t)index;
    MT_TRY(mt_query_row_natural(row, END_NS, &change.time_ns));
    walk->visitor->end(walk->visitor->context, &change);
    return MT_OK;
}

/* Has the block be one more row from now on. */
static mt_status begin_next_row(struct block_walk *walk, uint64_t allocation, int64_t event)
{
    if (event <= walk->last_event)
        return fail_on_event(event, "does not come in its order");
    walk->last_event = event;
    mt_number_map_put(&walk->by_alloc, allocation, walk->count++);
    return MT_OK;
}

static mt_status relabel_block(void *context, const struct mt_row *row)
{
    struct block_walk *walk = context;
    uint64_t index, allocation = (uint64_t)mt_row_integer(row, RELABEL_ALLOCATION);
    int64_t label = mt_row_integer(row, RELABEL_LABEL);
    struct mt_block_change change = {.event = mt_row_integer(row, RELABEL_ID), .label = (uint32_t)label};
    if (!mt_number_map_get(&walk->by_alloc, allocation, &index))
        return MT_OK;
    if (label < 0 || label >= walk->limits.labels)
        return fail_on_event(change.event, "has a label that there is not");
    change.row = (size_t)index;
    MT_TRY(mt_query_row_natural(row, RELABEL_NS, &change.time_ns));
    if (walk->visitor->rows == MT_ROW_A_LABEL)
        MT_TRY(begin_next_row(walk, allocation, change.event));
    walk->visitor->relabel(walk->visitor->context, &change);
    return MT_OK;
}

/* Adds the blocks of these alloc events, which ascend if the trace is sound, with their labels after `event`. */
static mt_status add_listed(struct mt_trace *trace, const struct mt_run *run, int64_t event, const int64_t *ids,
                            size_t count, struct block_walk *walk)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT begins(alloc.id, alloc.time_ns, alloc.requested_bytes, alloc.block_bytes, alloc.offset,"
        " alloc.segment, event.label, alloc.stream) FROM" MT_ALLOC_AND_LABELLING_EVENT(
            "?4") "WHERE ?1 = ?1 AND alloc.id = ?2 AND alloc.kind = ?3",
        &statement);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        size_t count_before = walk->count;
        MT_QUERY_BIND(statement, ids[i], MT_EVENT_ALLOC, event);
        status = mt_statement_run(statement);
        MT_THEN(status, walk->begins.status);
        if (status == MT_OK && (walk->count == count_before || ids[i] < run->first_event))
            status = fail_on_event(ids[i], "is in a checkpoint, and no allocation of its run");
    }
    mt_statement_finalize(statement);
    return status;
}

/* Adds the blocks that were live after `event`. */
static mt_status add_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct block_walk *walk)
{
    int64_t *ids;
    size_t count;
    mt_status status = mt_query_live(trace, run, event, &ids, &count);
    MT_THEN(status, add_listed(trace, run, event, ids, count, walk));
    free(ids);
    return status;
}

/* Adds the blocks that begin in the window, and ends those that end there. The table's own order is that of its ids. */
static mt_status add_window(struct mt_trace *trace, const struct mt_run *run, struct window window,
                            struct block_walk *walk)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run,
                                        "SELECT begins(" BEGIN_COLUMNS ") FILTER (WHERE kind = ?4),"
                                        " ends(" END_COLUMNS ") FILTER (WHERE kind = ?5),"
                                        " relabels(" RELABEL_COLUMNS ") FILTER (WHERE kind = ?6)"
                                        " FROM event NOT INDEXED WHERE ?1 = ?1 AND id >= ?2 AND id <= ?3",
                                        &statement);
    MT_QUERY_BIND(statement, window.first, window.last, MT_EVENT_ALLOC, MT_EVENT_FREE, MT_EVENT_RELABEL);
    MT_THEN(status, mt_statement_run(statement));
    mt_statement_finalize(statement);
    status = mt_status_keep(status, mt_status_keep(walk->begins.status, walk->ends.status));
    return mt_status_keep(status, walk->relabels.status);
}

/* Returns the part of a window that lies in the run. */
static struct window cut_to_run(struct window window, const struct mt_run *run)
{
    int64_t last = mt_query_end(run) - 1;
    window.first = window.first < run->first_event ? run->first_event : window.first;
    window.last = window.last > last ? last : window.last;
    return window;
}

static mt_status add_visitors(struct mt_trace *trace, struct block_walk *walk)
{
    walk->begins = (struct mt_row_visitor){.name = "begins", .visit = begin_block, .context = walk};
    walk->ends = (struct mt_row_visitor){.name = "ends", .visit = end_block, .context = walk};
    walk->relabels = (struct mt_row_visitor){.name = "relabels", .visit = relabel_block, .context = walk};
    MT_TRY(mt_row_visitor_add(trace->database, &walk->begins));
    MT_TRY(mt_row_visitor_add(trace->database, &walk->ends));
    return mt_row_visitor_add(trace->database, &walk->relabels);
}

/* Reads the blocks that were live after window.first - 1, and the window's events. */
static mt_status read_window(struct mt_trace *trace, const struct mt_run *run, struct window window,
                             struct block_walk *walk)
{
    MT_TRY(mt_database_begin_reading(trace->database));
    mt_status status = add_visitors(trace, walk);
    MT_THEN(status, mt_query_number_limits(trace, run, &walk->limits));
    MT_THEN(status, add_live(trace, run, window.first - 1, walk));
    if (status == MT_OK && window.first <= window.last)
        status = add_window(trace, run, window, walk);
    mt_row_visitor_remove(trace->database, &walk->begins);
    mt_row_visitor_remove(trace->database, &walk->ends);
    mt_row_visitor_remove(trace->database, &walk->relabels);
    mt_database_end_reading(trace->database);
    return status;
}

static mt_status visit_window(struct mt_trace *trace, const struct mt_run *run, struct window window,
                              const struct mt_block_visitor *visitor)
{
    struct block_walk walk = {.visitor = visitor};
    mt_number_map_create(&walk.by_alloc);
    mt_status status = read_window(trace, run, window, &walk);
    mt_number_map_release(&walk.by_alloc);
    return status;
}

mt_status mt_trace_blocks_visit(struct mt_trace *trace, const struct mt_run *run,
                                const struct mt_block_visitor *visitor)
{
    struct window all = cut_to_run((struct window){INT64_MIN, INT64_MAX}, run);
    return all.first <= all.last ? visit_window(trace, run, all, visitor) : MT_OK;
}

struct block_list {
    struct mt_block_row *rows;
    size_t count;
};

static void list_block(void *context, const struct mt_block_row *block)
{
    struct block_list *list = context;
    *MT_HOST_ADD(list->rows, list->count) = *block;
}

static void list_end(void *context, const struct mt_block_change *change)
{
    struct mt_block_row *row = &((struct block_list *)context)->rows[change->row];
    row->free_event = change->event;
    row->free_ns = change->time_ns;
}

static void list_label(void *context, const struct mt_block_change *change)
{
    ((struct block_list *)context)->rows[change->row].label = change->label;
}

static mt_status read_blocks(struct mt_trace *trace, const struct mt_run *run, struct window window,
                             struct mt_block_row **out_rows, size_t *out_count)
{
    struct block_list list = {.rows = NULL};
    const struct mt_block_visitor visitor = {
        .rows = MT_ROW_A_BLOCK, .context = &list, .begin = list_block, .end = list_end, .relabel = list_label};
    mt_status status = visit_window(trace, run, window, &visitor);
    return mt_query_hand_over(status, list.rows, list.count, out_rows, out_count);
}

mt_status mt_trace_blocks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                          struct mt_block_row **out_rows, size_t *out_count)
{
    struct window window = cut_to_run((struct window){first_event, last_event}, run);
    *out_rows = NULL;
    *out_count = 0;
    return window.first <= window.last ? read_blocks(trace, run, window, out_rows, out_count) : MT_OK;
}

mt_status mt_trace_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_block_row **out_rows,
                        size_t *out_count)
{
    int64_t last = cut_to_run((struct window){event, event}, run).last;
    return read_blocks(trace, run, (struct window){last + 1, last}, out_rows, out_count);
}
