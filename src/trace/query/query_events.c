/* What was allocated and freed, in order? Streams: no more than one row is held at a time. */
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>

mt_status mt_trace_step_events(struct mt_trace *trace, const struct mt_run *run, int64_t step, int64_t *out_first,
                               int64_t *out_last)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run, "SELECT first_event, last_event FROM step WHERE run = ?1 AND number = ?2", &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, step);
    bool row;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row) {
        *out_first = mt_statement_integer(statement, 0);
        *out_last = mt_statement_is_null(statement, 1) ? run->first_event + run->event_count - 1
                                                       : mt_statement_integer(statement, 1);
    }
    mt_statement_finalize(statement);
    if (status == MT_OK && !row)
        return mt_query_fail_no_step(run, step);
    return status;
}

static struct mt_event_row read_event(const struct mt_statement *row, int64_t n, int64_t first_event)
{
    bool is_alloc = mt_statement_integer(row, 1) == MT_EVENT_ALLOC;
    return (struct mt_event_row){
        .n = n,
        .action = mt_event_kind_name(is_alloc ? MT_EVENT_ALLOC : MT_EVENT_FREE),
        .id = is_alloc || !mt_statement_is_null(row, 2)
                  ? mt_query_position(mt_statement_integer(row, is_alloc ? 0 : 2), first_event)
                  : -1,
        .bytes = (uint64_t)mt_statement_integer(row, 3),
        .category = mt_statement_text(row, 4),
        .op = mt_statement_text(row, 5),
        .phase = mt_statement_text(row, 6),
        .span = mt_statement_text(row, 7),
        .role = mt_statement_text(row, 8),
        .time_ns = (uint64_t)mt_statement_integer(row, 9),
        .block_bytes = (uint64_t)mt_statement_integer(row, 10),
        .stream = (mt_stream)mt_statement_integer(row, 11),
    };
}

mt_status mt_trace_events(struct mt_trace *trace, const struct mt_run *run, int64_t step,
                          const struct mt_event_visitor *visitor)
{
    int64_t first = run->first_event, last = run->first_event + run->event_count - 1;
    mt_status status = step == MT_ALL_STEPS ? MT_OK : mt_trace_step_events(trace, run, step, &first, &last);
    if (status != MT_OK)
        return status;
    struct mt_statement *statement;
    status = mt_query_prepare(
        trace, run,
        "SELECT event.id, kind, allocation, requested_bytes, ifnull(label.category, ''), ifnull(label.op, ''),"
        " ifnull(label.phase, ''), ifnull(span.path, ''), ifnull(label.role, ''), time_ns, block_bytes, stream FROM "
        "event" MT_EVENT_LABEL_JOIN "WHERE event.id >= ?2 AND event.id <= ?3 AND kind IN (?4, ?5) ORDER BY event.id",
        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, first);
    mt_statement_bind_integer(statement, 3, last);
    mt_statement_bind_integer(statement, 4, MT_EVENT_ALLOC);
    mt_statement_bind_integer(statement, 5, MT_EVENT_FREE);
    bool row = true;
    status = visitor->begin(visitor->context);
    for (int64_t n = 0; status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row; n++) {
        struct mt_event_row event = read_event(statement, n, run->first_event);
        status = visitor->visit(visitor->context, &event);
    }
    mt_statement_finalize(statement);
    return status;
}
