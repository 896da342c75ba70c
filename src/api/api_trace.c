/* Questions about a trace. Each answer is one allocation with rows of the public type.
 *
 *   ┌ pointers ─────┬ rows ─────────────────────┐
 *   │ *0  *1  …     │ row 0   row 1   …         │   so rows can grow, and one free() releases all
 *   └──┼───┼────────┴─▲───────▲─────────────────┘
 *      ╰───┼──────────╯       │
 *          ╰──────────────────╯ */
#include "api/trace_parts.h"

#include "analysis/run_settings.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace/query/curve.h"
#include "trace/query/groups.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct memtrace_trace {
    struct mt_trace *trace;
    const struct mt_run *runs;
    memtrace_run_row *rows; /* rows[i] is converted from runs[i] */
    size_t count;
};

const char *mt_api_text(const char *text)
{
    return text != NULL ? text : "";
}

const void **mt_api_rows(size_t count, size_t row_bytes)
{
    assert(row_bytes % sizeof(void *) == 0);
    const void **pointers = mt_host_alloc(count * (sizeof *pointers + row_bytes) + 1);
    char *rows = (char *)(pointers + count);
    for (size_t i = 0; i < count; i++)
        pointers[i] = rows + i * row_bytes;
    return pointers;
}

static memtrace_run_row make_run_row(const struct mt_run *run)
{
    return (memtrace_run_row){.number = run->id,
                              .name = mt_api_text(run->name),
                              .state = mt_api_text(run->state),
                              .device = mt_api_text(run->device),
                              .started_at = mt_api_text(run->started_at),
                              .capacity_bytes = run->capacity_bytes,
                              .events = run->event_count,
                              .lost_events = run->lost_events,
                              .steps = run->steps,
                              .missing_records = run->missing_records,
                              .rank = run->rank,
                              .local_rank = run->local_rank,
                              .world_size = run->world_size,
                              .host = mt_api_text(run->host),
                              .job = mt_api_text(run->job)};
}

memtrace_status memtrace_trace_open(const char *path, memtrace_trace **out_trace)
{
    struct mt_trace *trace;
    MT_API_TRY(path != NULL ? mt_trace_open(path, &trace) : mt_fail(MT_USAGE, "the path of a trace is NULL"));
    struct memtrace_trace *made = mt_host_alloc(sizeof *made);
    made->trace = trace;
    made->runs = mt_trace_runs(trace, &made->count);
    made->rows = mt_host_alloc((made->count + 1) * sizeof *made->rows);
    for (size_t i = 0; i < made->count; i++)
        made->rows[i] = make_run_row(&made->runs[i]);
    *out_trace = made;
    return MEMTRACE_OK;
}

void memtrace_trace_close(memtrace_trace *trace)
{
    if (trace == NULL)
        return;
    mt_trace_close(trace->trace);
    free(trace->rows);
    free(trace);
}

void memtrace_free(const void *answer)
{
    free((void *)answer);
}

memtrace_status memtrace_trace_runs(memtrace_trace *trace, const memtrace_run_row *const **out_rows, size_t *out_count)
{
    const void **pointers = mt_api_rows(trace->count, 0);
    for (size_t i = 0; i < trace->count; i++)
        pointers[i] = &trace->rows[i];
    *out_rows = (const memtrace_run_row *const *)pointers;
    *out_count = trace->count;
    return MEMTRACE_OK;
}

memtrace_status memtrace_trace_find_run(memtrace_trace *trace, const char *which, const memtrace_run_row **out_run)
{
    const struct mt_run *run;
    mt_status status = mt_trace_find_run(trace->trace, which, &run);
    if (status == MT_OK)
        *out_run = &trace->rows[run - trace->runs];
    assert(status != MT_OK || (size_t)(run - trace->runs) < trace->count);
    return mt_api_status(status);
}

struct mt_trace *mt_api_trace_of(const memtrace_trace *trace)
{
    return trace->trace;
}

mt_status mt_api_find_run(const memtrace_trace *trace, const memtrace_run_row *row, const struct mt_run **out)
{
    for (size_t i = 0; i < trace->count; i++)
        if (row == &trace->rows[i]) {
            *out = &trace->runs[i];
            return MT_OK;
        }
    return mt_fail(MT_USAGE, row == NULL ? "the run is NULL" : "the run's row is not one of this trace");
}

/* An answer with one row, followed by its shares. */
struct peak_answer {
    memtrace_peak peak;
    const memtrace_share *pointers[];
};

static const memtrace_peak *make_peak(const struct mt_peak_row *row)
{
    size_t count = row->share_count;
    struct peak_answer *answer =
        mt_host_alloc(sizeof *answer + count * (sizeof *answer->pointers + sizeof(memtrace_share)));
    memtrace_share *shares = (memtrace_share *)(void *)(answer->pointers + count);
    for (size_t i = 0; i < count; i++) {
        const struct mt_peak_share *share = &row->shares[i];
        shares[i] =
            (memtrace_share){mt_api_text(share->name), share->allocated_bytes, share->requested_bytes, share->blocks};
        answer->pointers[i] = &shares[i];
    }
    answer->peak = (memtrace_peak){.bytes = row->bytes,
                                   .cached_bytes = row->cached_bytes,
                                   .step = row->step,
                                   .time_ns = row->time_ns,
                                   .phase = mt_api_text(row->phase),
                                   .span = mt_api_text(row->span),
                                   .share_count = count,
                                   .shares = answer->pointers};
    return &answer->peak;
}

static mt_status find_measure(memtrace_measured measured, mt_measure *out)
{
    static const mt_measure measures[] = {[MEMTRACE_ALLOCATED] = MT_MEASURE_ALLOCATED,
                                          [MEMTRACE_REQUESTED] = MT_MEASURE_REQUESTED,
                                          [MEMTRACE_RESERVED] = MT_MEASURE_RESERVED};
    if ((size_t)measured >= sizeof measures / sizeof measures[0])
        return mt_fail(MT_USAGE, "peak of measure %d; there are 0 to %d", (int)measured, MEMTRACE_RESERVED);
    *out = measures[measured];
    return MT_OK;
}

static_assert((int)MEMTRACE_ALL_STEPS == (int)MT_ALL_STEPS && MEMTRACE_BEFORE_STEPS == -1, "the numbers are the same");

memtrace_status memtrace_trace_peak(memtrace_trace *trace, const memtrace_run_row *run, int64_t step,
                                    memtrace_measured measured, const memtrace_peak **out_peak)
{
    return memtrace_trace_peak_by(trace, run, step, measured, mt_group_key_names[MT_GROUP_CATEGORY], out_peak);
}

static mt_status find_key(const char *name, mt_group_key *out)
{
    for (int key = 0; key < MT_GROUP_KEY_COUNT && name != NULL; key++)
        if (strcmp(name, mt_group_key_names[key]) == 0) {
            *out = (mt_group_key)key;
            return MT_OK;
        }
    return name == NULL ? mt_fail(MT_USAGE, "the key of a peak is NULL")
                        : mt_fail_unknown("key", name, mt_group_key_names, MT_GROUP_KEY_COUNT);
}

memtrace_status memtrace_trace_peak_by(memtrace_trace *trace, const memtrace_run_row *run, int64_t step,
                                       memtrace_measured measured, const char *key, const memtrace_peak **out_peak)
{
    const struct mt_run *ours = NULL;
    mt_measure measure = MT_MEASURE_ALLOCATED;
    mt_group_key by = MT_GROUP_CATEGORY;
    struct mt_peak_row row = {0};
    MT_API_TRY(mt_api_find_run(trace, run, &ours));
    MT_API_TRY(find_measure(measured, &measure));
    MT_API_TRY(find_key(key, &by));
    mt_status status = mt_trace_peak_by(trace->trace, ours, step, measure, by, &row);
    if (status == MT_OK)
        *out_peak = make_peak(&row);
    mt_peak_row_release(&row);
    return mt_api_status(status);
}

static_assert((int)MEMTRACE_BY_TIME == (int)MT_CURVE_BY_TIME && (int)MEMTRACE_BY_EVENT == (int)MT_CURVE_BY_EVENT,
              "the numbers are the same");

/* An answer followed by its bins. */
struct curve_answer {
    memtrace_curve curve;
    uint64_t bytes[];
};

static const memtrace_curve *make_curve(const struct mt_curve *curve, mt_curve_axis axis)
{
    size_t bytes = curve->count * sizeof curve->bytes[0];
    struct curve_answer *answer = mt_host_alloc(sizeof *answer + bytes);
    answer->curve = (memtrace_curve){(memtrace_axis)axis, curve->bin, curve->end, curve->count, answer->bytes};
    memcpy(answer->bytes, curve->bytes, bytes);
    return &answer->curve;
}

memtrace_status memtrace_trace_curve(memtrace_trace *trace, const memtrace_run_row *run,
                                     const memtrace_curve **out_curve)
{
    const struct mt_run *ours = NULL;
    struct mt_settings settings = {0};
    struct mt_curve curve;
    MT_API_TRY(mt_api_find_run(trace, run, &ours));
    mt_status status = mt_settings_load(trace->trace, ours, &settings);
    mt_curve_axis axis = mt_program_of_settings(&settings).is_dry ? MT_CURVE_BY_EVENT : MT_CURVE_BY_TIME;
    mt_settings_release(&settings);
    MT_THEN(status, mt_trace_curve(trace->trace, ours, axis, &curve));
    if (status == MT_OK)
        *out_curve = make_curve(&curve, axis);
    return mt_api_status(status);
}

static memtrace_top_row make_top_row(const struct mt_top_row *row)
{
    return (memtrace_top_row){.bytes = row->bytes,
                              .count = row->count,
                              .category = mt_api_text(row->category),
                              .op = mt_api_text(row->op),
                              .phase = mt_api_text(row->phase),
                              .role = mt_api_text(row->role),
                              .dtype = mt_api_text(row->dtype),
                              .shape = mt_api_text(row->shape),
                              .span = mt_api_text(row->span),
                              .step = row->step};
}

memtrace_status memtrace_trace_top(memtrace_trace *trace, const memtrace_run_row *run, memtrace_moment moment,
                                   size_t limit, const memtrace_top_row *const **out_rows, size_t *out_count)
{
    const struct mt_run *ours = NULL;
    struct mt_top_row *rows = NULL;
    size_t count = 0;
    bool is_complete;
    MT_API_TRY(mt_api_find_run(trace, run, &ours));
    if (moment != MEMTRACE_AT_PEAK && moment != MEMTRACE_WHOLE_RUN)
        return mt_api_status(mt_fail(MT_USAGE, "moment %d; there are 0 to %d", (int)moment, MEMTRACE_WHOLE_RUN));
    MT_API_TRY(mt_trace_top(
        trace->trace, ours,
        &(struct mt_top_choice){.moment = moment == MEMTRACE_WHOLE_RUN ? MT_TOP_WHOLE_RUN : MT_TOP_AT_PEAK}, limit,
        &rows, &count, &is_complete));
    const void **pointers = mt_api_rows(count, sizeof(memtrace_top_row));
    for (size_t i = 0; i < count; i++)
        *(memtrace_top_row *)pointers[i] = make_top_row(&rows[i]);
    free(rows);
    *out_rows = (const memtrace_top_row *const *)pointers;
    *out_count = count;
    return MEMTRACE_OK;
}

memtrace_status memtrace_trace_categories(memtrace_trace *trace, const memtrace_run_row *run, const char *phase,
                                          const memtrace_category_row *const **out_rows, size_t *out_count)
{
    const struct mt_run *ours = NULL;
    struct mt_category_row *rows = NULL;
    size_t count = 0;
    MT_API_TRY(mt_api_find_run(trace, run, &ours));
    MT_API_TRY(mt_trace_categories(trace->trace, ours, phase, &rows, &count));
    const void **pointers = mt_api_rows(count, sizeof(memtrace_category_row));
    for (size_t i = 0; i < count; i++)
        *(memtrace_category_row *)pointers[i] =
            (memtrace_category_row){mt_api_text(rows[i].category), rows[i].max_bytes, rows[i].total_bytes,
                                    rows[i].per_step, rows[i].forward_bytes};
    free(rows);
    *out_rows = (const memtrace_category_row *const *)pointers;
    *out_count = count;
    return MEMTRACE_OK;
}
