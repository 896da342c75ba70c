/* What went on while memory changed: steps, phases, spans, refusals?
 *
 * There are as many marks as a third of all events, and spans are few: each span's path is read once, and a mark finds it
 * by its number. */
#include "base/memory.h"
#include "base/number_map.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>

/* Marks under way. `paths` maps the number of a span to its path, a kept text. */
struct mark_list {
    struct mt_mark_row *rows;
    size_t count;
    struct mt_number_limits limits;
    struct mt_number_map paths;
};

/* The kinds that are marks lie together. */
enum { FIRST_MARK = MT_EVENT_OOM, LAST_MARK = MT_EVENT_PHASE };

/* What the visitor is told. An event's own span goes before its label's. */
#define MARK_COLUMNS                                                                                                   \
    "id, time_ns, kind, requested_bytes, label, stream,"                                                               \
    " coalesce(span, (SELECT label.span FROM label WHERE label.run = ?1 AND label.id = event.label))"
enum { ID, TIME_NS, KIND, VALUE, LABEL, STREAM, SPAN };

static const char *path_of(const struct mark_list *list, int64_t span)
{
    uint64_t path = (uintptr_t) "";
    mt_number_map_get(&list->paths, (uint64_t)span, &path);
    return (const char *)(uintptr_t)path;
}

/* What of a mark may be wrong in a damaged trace. */
static mt_status check_mark(const struct mt_mark_row *mark, int64_t label, const struct mt_number_limits *limits)
{
    if (label < 0 || label >= limits->labels)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " has label %" PRId64 ", of %" PRIu32,
                       mark->event, label, limits->labels);
    if (mark->kind == MT_EVENT_PHASE && mark->value >= MT_PHASE_COUNT)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " begins phase %" PRIu64 ", of %d",
                       mark->event, mark->value, MT_PHASE_COUNT);
    return MT_OK;
}

static mt_status read_mark(const struct mt_row *row, const struct mark_list *list, struct mt_mark_row *out)
{
    int64_t label = mt_row_integer(row, LABEL);
    *out = (struct mt_mark_row){.event = mt_row_integer(row, ID),
                                .kind = (mt_event_kind)mt_row_integer(row, KIND),
                                .span = path_of(list, mt_row_integer(row, SPAN)),
                                .label = (uint32_t)label,
                                .stream = (mt_stream)mt_row_integer(row, STREAM)};
    mt_status status = mt_query_row_natural(row, TIME_NS, &out->time_ns);
    if (status == MT_OK)
        status = mt_query_row_natural(row, VALUE, &out->value);
    return status == MT_OK ? check_mark(out, label, &list->limits) : status;
}

static mt_status add_mark(void *context, const struct mt_row *row)
{
    struct mark_list *list = context;
    struct mt_mark_row mark;
    mt_status status = read_mark(row, list, &mark);
    if (status != MT_OK)
        return status;
    list->rows = mt_host_room(list->rows, list->count, sizeof *list->rows);
    list->rows[list->count++] = mark;
    return MT_OK;
}

static mt_status read_paths(struct mt_trace *trace, const struct mt_run *run, struct mark_list *list)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run, "SELECT id, path FROM span WHERE run = ?1", &statement);
    if (status != MT_OK)
        return status;
    bool row;
    while ((status = mt_statement_step(statement, &row)) == MT_OK && row)
        mt_number_map_put(&list->paths, (uint64_t)mt_statement_integer(statement, 0),
                          (uintptr_t)mt_query_text(trace, statement, 1));
    mt_statement_finalize(statement);
    return status;
}

/* The marks with first <= id <= last, in the table's own order, which is that of its ids. */
static mt_status read_marks(struct mt_trace *trace, const struct mt_run *run, int64_t first, int64_t last,
                            struct mark_list *list)
{
    struct mt_statement *statement;
    struct mt_row_visitor marks = {.name = "marks", .visit = add_mark, .context = list};
    mt_status status = mt_row_visitor_add(trace->database, &marks);
    if (status != MT_OK)
        return status;
    status = mt_query_prepare(trace, run,
                              "SELECT marks(" MARK_COLUMNS ") FILTER (WHERE kind BETWEEN ?4 AND ?5)"
                              " FROM event NOT INDEXED WHERE id >= ?2 AND id <= ?3",
                              &statement);
    if (status == MT_OK) {
        mt_statement_bind_integer(statement, 2, first);
        mt_statement_bind_integer(statement, 3, last);
        mt_statement_bind_integer(statement, 4, FIRST_MARK);
        mt_statement_bind_integer(statement, 5, LAST_MARK);
        status = mt_statement_run(statement);
        mt_statement_finalize(statement);
    }
    mt_row_visitor_remove(trace->database, &marks);
    return mt_status_keep(status, marks.status);
}

mt_status mt_trace_marks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                         struct mt_mark_row **out_rows, size_t *out_count)
{
    int64_t first = first_event < run->first_event ? run->first_event : first_event;
    int64_t end = run->first_event + run->event_count, last = last_event >= end ? end - 1 : last_event;
    struct mark_list list = {0};
    mt_number_map_create(&list.paths);
    mt_status status = mt_query_number_limits(trace, run, &list.limits);
    if (status == MT_OK)
        status = read_paths(trace, run, &list);
    if (status == MT_OK)
        status = read_marks(trace, run, first, last, &list);
    mt_number_map_release(&list.paths);
    if (status != MT_OK) {
        free(list.rows);
        list = (struct mark_list){0};
    }
    *out_rows = list.rows;
    *out_count = list.count;
    return status;
}
