/* What went on while memory changed: steps, phases, spans, refusals? */
#include "trace/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>

struct mark_list {
    struct mt_mark_row *rows;
    size_t count;
    struct mt_number_limits limits;
};

/* The kinds that are marks lie together. */
enum { FIRST_MARK = MT_EVENT_OOM, LAST_MARK = MT_EVENT_PHASE };

enum { ID, TIME_NS, KIND, VALUE, LABEL, PATH, STREAM };

static mt_status add_mark(struct mt_trace *trace, const struct mt_statement *row, struct mark_list *list)
{
    struct mt_mark_row mark = {.event = mt_statement_integer(row, ID),
                               .kind = (mt_event_kind)mt_statement_integer(row, KIND),
                               .span = mt_query_text(trace, row, PATH),
                               .stream = (mt_stream)mt_statement_integer(row, STREAM)};
    mt_status status = mt_query_natural(row, TIME_NS, &mark.time_ns);
    if (status == MT_OK)
        status = mt_query_natural(row, VALUE, &mark.value);
    if (status == MT_OK)
        status = mt_query_label_number(row, LABEL, &list->limits, &mark.label);
    if (status == MT_OK && mark.kind == MT_EVENT_PHASE && mark.value >= MT_PHASE_COUNT)
        status = mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " begins phase %" PRIu64 ", of %d",
                         mark.event, mark.value, MT_PHASE_COUNT);
    if (status != MT_OK)
        return status;
    list->rows = mt_query_room(list->rows, list->count, sizeof *list->rows);
    list->rows[list->count++] = mark;
    return MT_OK;
}

mt_status mt_trace_marks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                         struct mt_mark_row **out_rows, size_t *out_count)
{
    *out_rows = NULL;
    *out_count = 0;
    int64_t last = run->first_event + run->event_count - 1;
    struct mark_list list = {0};
    struct mt_statement *statement;
    mt_status status = mt_query_number_limits(trace, run, &list.limits);
    if (status == MT_OK)
        status =
            mt_query_prepare(trace, run,
                             "SELECT event.id, time_ns, kind, ifnull(requested_bytes, 0), event.label, span.path,"
                             " event.stream FROM event" MT_EVENT_LABEL_JOIN "WHERE event.id >= ?2 AND event.id <= ?3"
                             " AND kind BETWEEN ?4 AND ?5 ORDER BY event.id",
                             &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, first_event < run->first_event ? run->first_event : first_event);
    mt_statement_bind_integer(statement, 3, last_event > last ? last : last_event);
    mt_statement_bind_integer(statement, 4, FIRST_MARK);
    mt_statement_bind_integer(statement, 5, LAST_MARK);
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row)
        status = add_mark(trace, statement, &list);
    mt_statement_finalize(statement);
    if (status != MT_OK) {
        free(list.rows);
        return status;
    }
    *out_rows = list.rows;
    *out_count = list.count;
    return MT_OK;
}
