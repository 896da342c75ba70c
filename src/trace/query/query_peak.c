/* Queries about peaks: how high, at which event, and the blocks that were live there by category. */
#include "base/checked.h"
#include "base/memory.h"
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Fails if the run has allocations: without a peak, such a trace is damaged, and its peak must not be taken for 0. */
static mt_status check_no_block(struct mt_trace *trace, const struct mt_run *run)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT run.id FROM run JOIN event NOT INDEXED ON event.id >= ?2 AND event.id < ?3 AND event.kind = ?4"
                 " WHERE run.id = ?1 LIMIT 1",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)),
                 MT_BIND_INTEGER(MT_EVENT_ALLOC))
        status = mt_fail(MT_BAD_TRACE, "%s is damaged: run %" PRId64 " has allocations, and no peak",
                         mt_database_path(trace->database), run->id);
    return status;
}

static mt_status find_peak(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                           uint64_t *out_bytes, int64_t *out_event)
{
    *out_bytes = 0;
    *out_event = 0;
    mt_status status = MT_OK;
    bool is_found = false;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT bytes, event FROM summary_peak WHERE run = ?1 AND step = ?2 AND measure = ?3",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(step), MT_BIND_TEXT(mt_measure_name(measure))) {
        is_found = true;
        *out_bytes = (uint64_t)mt_statement_integer(row, 0);
        *out_event = mt_statement_integer(row, 1);
    }
    if (status == MT_OK && !is_found && step == MT_STEP_WHOLE_RUN)
        status = check_no_block(trace, run);
    return status;
}

mt_status mt_query_peak_event(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, uint64_t *out_bytes,
                              int64_t *out_event)
{
    return find_peak(trace, run, MT_STEP_WHOLE_RUN, measure, out_bytes, out_event);
}

/* Reads the moment of the peak, and the phase and span of the block that reached it. A segment carries no label: it was
 * taken for the next block, if there is one. */
static mt_status read_moment(struct mt_trace *trace, const struct mt_run *run, struct mt_peak_row *peak)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT (SELECT time_ns FROM event NOT INDEXED WHERE id = ?2), label.phase, span.path FROM (SELECT id "
                 "AS next FROM event NOT INDEXED"
                 " WHERE id >= ?2 AND id < ?3 AND label IS NOT NULL UNION ALL SELECT NULL LIMIT 1)"
                 " LEFT JOIN event NOT INDEXED ON event.id = next" MT_EVENT_LABEL_JOIN,
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(peak->event), MT_BIND_INTEGER(mt_query_end(run))) {
        peak->time_ns = (uint64_t)mt_statement_integer(row, 0);
        peak->phase = mt_query_text(trace, row, 1);
        peak->span = mt_query_text(trace, row, 2);
    }
    return mt_status_keep(status, mt_trace_step_of(trace, run, peak->event, &peak->step));
}

static void add_share(struct mt_trace *trace, const struct mt_statement *row, struct mt_peak_row *peak)
{
    *MT_HOST_ADD(peak->shares, peak->share_count) = (struct mt_peak_share){
        .name = mt_query_text(trace, row, 0),
        .allocated_bytes = (uint64_t)mt_statement_integer(row, 1),
        .requested_bytes = (uint64_t)mt_statement_integer(row, 2),
        .blocks = (uint64_t)mt_statement_integer(row, 3),
    };
}

/* The stored shares of a peak by a word of the labels. */
#define STORED_SHARES(word)                                                                                            \
    "SELECT " word ", allocated_bytes, requested_bytes, blocks FROM summary_peak_" word                                \
    " WHERE run = ?1 AND step = ?2 AND measure = ?3 AND blocks > 0"                                                    \
    " ORDER BY CASE ?3 WHEN 'requested' THEN requested_bytes ELSE allocated_bytes END DESC, " word

static mt_status read_shares(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                             const char *sql, struct mt_peak_row *peak)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database, sql, MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(step),
                 MT_BIND_TEXT(mt_measure_name(measure)))
        add_share(trace, row, peak);
    return status;
}

mt_status mt_query_peak_roles(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                              struct mt_peak_row *peak)
{
    free(peak->shares);
    peak->shares = NULL;
    peak->share_count = 0;
    return read_shares(trace, run, step, measure, STORED_SHARES("role"), peak);
}

mt_status mt_query_check_peak(struct mt_trace *trace, const struct mt_run *run, mt_measure measure,
                              struct mt_peak_row *peak)
{
    uint64_t sum = 0;
    bool overflows = false;
    for (size_t i = 0; i < peak->share_count; i++)
        overflows |= !mt_checked_add(
            sum, measure == MT_MEASURE_REQUESTED ? peak->shares[i].requested_bytes : peak->shares[i].allocated_bytes,
            &sum);
    bool holds = measure == MT_MEASURE_RESERVED ? sum <= peak->bytes : sum == peak->bytes;
    if (overflows || !holds)
        return mt_fail(MT_BAD_TRACE,
                       "%s is damaged: the peak of %s bytes of run %" PRId64 " is %" PRIu64
                       ", and its blocks sum to %" PRIu64,
                       mt_database_path(trace->database), mt_measure_name(measure), run->id, peak->bytes, sum);
    if (measure == MT_MEASURE_RESERVED)
        peak->cached_bytes = peak->bytes - sum;
    assert(peak->cached_bytes <= peak->bytes);
    return MT_OK;
}

mt_status mt_trace_step_peak(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                             struct mt_peak_row *out)
{
    *out = (struct mt_peak_row){.step = MT_STEP_BEFORE, .phase = "", .span = ""};
    mt_status status = mt_run_check_step(run, step);
    MT_THEN(status, find_peak(trace, run, step, measure, &out->bytes, &out->event));
    if (status != MT_OK || out->event == 0)
        return status;
    status = read_moment(trace, run, out);
    MT_THEN(status, read_shares(trace, run, step, measure, STORED_SHARES("category"), out));
    return status == MT_OK ? mt_query_check_peak(trace, run, measure, out) : status;
}

mt_status mt_trace_peak(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, struct mt_peak_row *out)
{
    return mt_trace_step_peak(trace, run, MT_STEP_WHOLE_RUN, measure, out);
}

void mt_peak_row_release(struct mt_peak_row *peak)
{
    free(peak->shares);
    *peak = (struct mt_peak_row){0};
}

mt_status mt_trace_peak_bytes(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, uint64_t *out_bytes)
{
    struct mt_peak_row peak = {0};
    mt_status status = mt_trace_peak(trace, run, measure, &peak);
    *out_bytes = peak.bytes;
    mt_peak_row_release(&peak);
    return status;
}
