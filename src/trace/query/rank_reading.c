#include "trace/query/rank_reading.h"

#include "base/memory.h"
#include "trace/query/query.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static void add_shares(struct mt_rank *rank, mt_rank_key key, const struct mt_peak_row *peak)
{
    for (size_t i = 0; i < peak->share_count; i++)
        *MT_HOST_ADD(rank->shares, rank->share_count) =
            (struct mt_rank_share){key, peak->shares[i].name, peak->shares[i].allocated_bytes};
}

static mt_status read_peaks(struct mt_trace *trace, const struct mt_run *run, struct mt_rank *rank)
{
    struct mt_peak_row peak;
    int64_t event;
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        MT_TRY(mt_query_peak_event(trace, run, (mt_measure)measure, &rank->peak_bytes[measure], &event));
    mt_status status = mt_trace_peak(trace, run, MT_MEASURE_ALLOCATED, &peak);
    if (status == MT_OK) {
        rank->step = peak.step;
        rank->phase = peak.phase;
        rank->span = peak.span;
        add_shares(rank, MT_RANK_CATEGORY, &peak);
        status = mt_query_peak_roles(trace, run, MT_STEP_WHOLE_RUN, MT_MEASURE_ALLOCATED, &peak);
    }
    if (status == MT_OK)
        add_shares(rank, MT_RANK_ROLE, &peak);
    mt_peak_row_release(&peak);
    return status;
}

/* Reads by how much the last steps each went higher than the one before. */
static mt_status read_growth(struct mt_trace *trace, const struct mt_run *run, struct mt_rank *rank)
{
    mt_status status = MT_OK;
    uint64_t last = UINT64_MAX;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT bytes FROM summary_peak WHERE run = ?1 AND measure = ?2 AND step >= 0 AND step <= ?3"
                 " ORDER BY step",
                 MT_BIND_INTEGER(run->id), MT_BIND_TEXT(mt_measure_name(MT_MEASURE_ALLOCATED)),
                 MT_BIND_INTEGER(run->last_full_step)) {
        uint64_t bytes;
        status = mt_query_natural(row, 0, &bytes);
        const bool grows = status == MT_OK && bytes > last;
        rank->growing_steps = grows ? rank->growing_steps + 1 : 0;
        rank->growth_bytes = grows ? rank->growth_bytes + (bytes - last) : 0;
        last = bytes;
    }
    return status;
}

static mt_status read_rank(struct mt_trace *trace, const struct mt_run *run, struct mt_rank *out)
{
    *out = (struct mt_rank){
        .run = run->id,
        .rank = run->rank,
        .local_rank = run->local_rank,
        .world_size = run->world_size,
        .host = text_of(run->host),
        .job = text_of(run->job),
        .name = text_of(run->name),
        .state = run->state,
        .device = run->device,
        .started_at = text_of(run->started_at),
        .steps = run->steps,
        .phase = "",
        .span = "",
    };
    MT_TRY(read_peaks(trace, run, out));
    return read_growth(trace, run, out);
}

/* True if none of the runs after it is of the same rank. */
static bool is_newest(const struct mt_run *runs, size_t count, size_t place)
{
    for (size_t i = place + 1; i < count; i++)
        if (runs[i].rank == runs[place].rank && strcmp(text_of(runs[i].job), text_of(runs[place].job)) == 0)
            return false;
    return runs[place].rank >= 0;
}

mt_status mt_rank_visit(const char *path, void *context, mt_status (*visit)(void *context, const struct mt_rank *rank))
{
    struct mt_trace *trace;
    size_t count, found = 0;
    MT_TRY(mt_trace_open(path, &trace));
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_rank rank;
        if (!is_newest(runs, count, i))
            continue;
        found++;
        status = read_rank(trace, &runs[i], &rank);
        MT_THEN(status, visit(context, &rank));
        free(rank.shares);
    }
    mt_trace_close(trace);
    return status == MT_OK && found == 0 ? mt_fail(MT_USAGE, "%s has no run of a rank", path) : status;
}
