/* Look-ups around single events. */
#include "trace/query/lookup.h"

#include "trace/query/query.h"

const char *mt_trace_keep(struct mt_trace *trace, const char *text)
{
    return mt_query_keep(trace, text);
}

mt_status mt_trace_step_of(struct mt_trace *trace, const struct mt_run *run, int64_t event, int64_t *out_step)
{
    return mt_query_step_of(trace, run, event, out_step);
}

mt_status mt_trace_request_after(struct mt_trace *trace, const struct mt_run *run, int64_t event, uint64_t *out_bytes)
{
    *out_bytes = 0;
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run, "SELECT kind, requested_bytes FROM event WHERE ?1 = ?1 AND id > ?2 AND id < ?3 ORDER BY id LIMIT 1",
        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, event);
    mt_statement_bind_integer(statement, 3, run->first_event + run->event_count);
    bool row;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row && mt_statement_integer(statement, 0) == MT_EVENT_ALLOC)
        status = mt_query_natural(statement, 1, out_bytes);
    mt_statement_finalize(statement);
    return status;
}

mt_status mt_trace_phase_of_free(struct mt_trace *trace, const struct mt_run *run, const struct mt_free_search *search,
                                 const char **out_phase)
{
    *out_phase = "";
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT requested_bytes FROM event WHERE ?1 = ?1 AND kind = ?7 AND id >= ?4 AND id <"
        " (SELECT id FROM event WHERE id > ?3 AND id <= ?5 AND kind = ?6 AND allocation = ?2 ORDER BY id LIMIT 1)"
        " ORDER BY id DESC LIMIT 1",
        &statement);
    if (status != MT_OK)
        return status;
    const int64_t values[] = {search->alloc_event, search->event, search->first,
                              search->last,        MT_EVENT_FREE, MT_EVENT_PHASE};
    for (int i = 0; i < (int)(sizeof values / sizeof values[0]); i++)
        mt_statement_bind_integer(statement, i + 2, values[i]);
    bool row;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row) {
        int64_t phase = mt_statement_integer(statement, 0);
        *out_phase = phase >= 0 && phase < MT_PHASE_COUNT ? mt_phase_name((mt_phase)phase) : "";
    }
    mt_statement_finalize(statement);
    return status;
}
