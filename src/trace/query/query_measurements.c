/* Queries about the settings and measurements of a run, and about figures that rest on measurements: the memory that
 * the driver says the process holds, and the durations of steps. */
#include "base/memory.h"
#include "base/order.h"
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *mt_setting_find(const struct mt_setting_row *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].value;
    return "";
}

mt_status mt_trace_settings(struct mt_trace *trace, const struct mt_run *run, struct mt_setting_row **out_rows,
                            size_t *out_count)
{
    struct mt_setting_row *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database, "SELECT name, value FROM setting WHERE run = ?1 ORDER BY name",
                 MT_BIND_INTEGER(run->id))
        *MT_HOST_ADD(rows, count) =
            (struct mt_setting_row){.name = mt_query_text(trace, row, 0), .value = mt_query_text(trace, row, 1)};
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}

mt_status mt_trace_measurements(struct mt_trace *trace, const struct mt_run *run, const char *name,
                                struct mt_measurement_row **out_rows, size_t *out_count)
{
    struct mt_measurement_row *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT step, value FROM measurement WHERE run = ?1 AND name = ?2 ORDER BY step",
                 MT_BIND_INTEGER(run->id), MT_BIND_TEXT(name)) {
        bool is_null = mt_statement_is_null(row, 1);
        *MT_HOST_ADD(rows, count) = (struct mt_measurement_row){.name = mt_trace_keep(trace, name),
                                                                .step = mt_statement_integer(row, 0),
                                                                .value = is_null ? NAN : mt_statement_real(row, 1)};
    }
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}

/* The readings that make up a row. Each is a measurement of this name after "memory:". */
enum reading { DRIVER_USED, REQUESTED, ALLOCATED, RESERVED, CONTEXT, LIBRARY, NCCL, FREE, TOTAL, READING_COUNT };
static const char *const reading_names[READING_COUNT] = {"driver_used", "requested", "allocated", "reserved", "context",
                                                         "library",     "nccl",      "free",      "total"};

static const char used_sql[] =
    "SELECT substr(name, 8), value, step FROM measurement WHERE run = ?1 AND name >= 'memory:' AND name < 'memory;'"
    " AND step = (SELECT max(step) FROM measurement WHERE run = ?1 AND name = 'memory:driver_used')";

/* The last totals outside the allocator. Kinds other than context and NCCL count as libraries. Older programs stored
 * them as measurements. */
static const char outside_sql[] = "SELECT iif(kind IN ('context', 'nccl'), kind, 'library'), sum(bytes) FROM (SELECT "
                                  "kind, bytes, max(event) FROM outside"
                                  " WHERE run = ?1 GROUP BY kind, name) GROUP BY 1";

static void keep_reading(const struct mt_statement *row, int64_t readings[READING_COUNT])
{
    const char *name = mt_statement_text(row, 0);
    for (int i = 0; i < READING_COUNT && name != NULL; i++)
        if (strcmp(reading_names[i], name) == 0 && !mt_statement_is_null(row, 1))
            readings[i] = mt_statement_integer(row, 1);
}

/* Reads the last readings and their step. Readings that the run lacks keep their value. */
static mt_status read_readings(struct mt_trace *trace, const struct mt_run *run, int64_t readings[READING_COUNT],
                               int64_t *out_step)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database, used_sql, MT_BIND_INTEGER(run->id)) {
        keep_reading(row, readings);
        *out_step = mt_statement_integer(row, 2);
    }
    MT_EACH_ROW (row, status, trace->database, outside_sql, MT_BIND_INTEGER(run->id))
        keep_reading(row, readings);
    return status;
}

/* Fails if a reading is more than any card could have, so that sums of them do not overflow. */
static mt_status check_readings(const struct mt_run *run, const int64_t readings[READING_COUNT])
{
    for (int i = 0; i < READING_COUNT; i++)
        if (readings[i] < -1 || readings[i] > INT64_MAX / READING_COUNT)
            return mt_fail(MT_BAD_TRACE, "the trace is damaged: run %" PRId64 " read %" PRId64 " bytes of memory:%s",
                           run->id, readings[i], reading_names[i]);
    return MT_OK;
}

mt_status mt_trace_used(struct mt_trace *trace, const struct mt_run *run, struct mt_used_row *out)
{
    int64_t bytes[READING_COUNT] = {[DRIVER_USED] = -1, [FREE] = -1, [TOTAL] = -1};
    *out = (struct mt_used_row){0};
    MT_TRY(read_readings(trace, run, bytes, &out->step));
    MT_TRY(check_readings(run, bytes));
    if (bytes[DRIVER_USED] < 0)
        MT_TRY(mt_query_estimate_used(trace, run, out));
    if (out->is_estimate)
        return MT_OK;
    if (bytes[DRIVER_USED] < 0)
        return mt_fail(MT_USAGE, "run %" PRId64 ", on %s, has no driver's figure of used memory", run->id, run->device);
    out->requested = bytes[REQUESTED];
    out->rounding = bytes[ALLOCATED] - bytes[REQUESTED];
    out->cached = bytes[RESERVED] - bytes[ALLOCATED];
    out->context = bytes[CONTEXT];
    out->libraries = bytes[LIBRARY];
    out->nccl = bytes[NCCL];
    out->unexplained = bytes[DRIVER_USED] - bytes[RESERVED] - bytes[CONTEXT] - bytes[LIBRARY] - bytes[NCCL];
    out->used = bytes[DRIVER_USED];
    out->free = bytes[FREE];
    out->total = bytes[TOTAL];
    assert(out->requested + out->rounding + out->cached + out->context + out->libraries + out->nccl +
               out->unexplained ==
           out->used);
    return MT_OK;
}

static const struct {
    const char *name, *measurement;
} timed_parts[MT_TIMED_PART_COUNT] = {
    [MT_TIMED_FORWARD] = {"forward", "phase_ms:forward"},
    [MT_TIMED_LOSS] = {"loss", "phase_ms:loss"},
    [MT_TIMED_BACKWARD] = {"backward", "phase_ms:backward"},
    [MT_TIMED_OPTIMIZER] = {"optimizer", "phase_ms:optimizer"},
    [MT_TIMED_STEP] = {"step", "step_ms"},
};

const char *mt_timed_part_name(mt_timed_part part)
{
    assert(part < MT_TIMED_PART_COUNT);
    return timed_parts[part].name;
}

const char *mt_timed_part_measurement(mt_timed_part part)
{
    assert(part < MT_TIMED_PART_COUNT);
    return timed_parts[part].measurement;
}

/* Returns the deviation of the sample. A second pass keeps the precision that sums of squares lose if times differ
 * little. */
static double deviation_of(const double *ms, int64_t count, double mean)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (ms[i] - mean) * (ms[i] - mean);
    return count > 1 ? sqrt(sum / (double)(count - 1)) : NAN;
}

/* Returns the statistics. Sorts `ms`. */
static struct mt_time_statistics statistics_of(double *ms, int64_t count)
{
    if (count == 0)
        return (struct mt_time_statistics){0, NAN, NAN, NAN, NAN, NAN};
    double sum = 0, median = mt_median(ms, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        sum += ms[i];
    double mean = sum / (double)count;
    return (struct mt_time_statistics){.count = count,
                                       .mean = mean,
                                       .deviation = deviation_of(ms, count, mean),
                                       .median = median,
                                       .minimum = ms[0],
                                       .maximum = ms[count - 1]};
}

static mt_status time_part(struct mt_trace *trace, const struct mt_run *run, mt_timed_part part, int64_t warmup,
                           struct mt_time_statistics *out)
{
    struct mt_measurement_row *rows;
    size_t count;
    mt_status status = mt_trace_measurements(trace, run, timed_parts[part].measurement, &rows, &count);
    double *ms = mt_host_alloc((count + 1) * sizeof *ms);
    int64_t measured = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].step >= warmup && !isnan(rows[i].value))
            ms[measured++] = rows[i].value;
    *out = statistics_of(ms, measured);
    free(ms);
    free(rows);
    return status;
}

/* Returns the precision in words, "" if the run has neither setting. */
static const char *precision(const char *autocast, const char *matmul)
{
    if (autocast[0] == '\0' && matmul[0] == '\0')
        return "";
    if (strcmp(matmul, "fp8") == 0)
        return "fp8 and bf16 autocast";
    if (strcmp(autocast, "bf16") == 0)
        return "bf16 autocast";
    if (strcmp(autocast, "fp16") == 0)
        return "fp16 autocast";
    return strcmp(matmul, "tf32") == 0 ? "tf32" : "fp32";
}

static mt_status read_settings(struct mt_trace *trace, const struct mt_run *run, struct mt_steps_row *out)
{
    struct mt_setting_row *rows;
    size_t count;
    mt_status status = mt_trace_settings(trace, run, &rows, &count);
    out->model = mt_setting_find(rows, count, "model");
    out->batch = mt_setting_find(rows, count, "batch");
    out->seq = mt_setting_find(rows, count, "seq");
    out->mode = mt_setting_find(rows, count, "mode");
    out->precision = precision(mt_setting_find(rows, count, "autocast"), mt_setting_find(rows, count, "matmul"));
    out->warmup = strtoll(mt_setting_find(rows, count, "warmup"), NULL, 10);
    free(rows);
    return status;
}

static mt_status read_oom(struct mt_trace *trace, const struct mt_run *run, struct mt_steps_row *out)
{
    /* The last one of the run: after it the program only frees. */
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT event.requested_bytes, label.category, label.phase, span.path FROM event NOT "
                 "INDEXED" MT_EVENT_LABEL_JOIN
                 "WHERE event.id >= ?2 AND event.id < ?3 AND event.kind = ?4 ORDER BY event.id DESC LIMIT 1",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)),
                 MT_BIND_INTEGER(MT_EVENT_OOM)) {
        out->oom_bytes = mt_statement_integer(row, 0);
        out->oom_category = mt_query_text(trace, row, 1);
        out->oom_phase = mt_query_text(trace, row, 2);
        out->oom_span = mt_query_text(trace, row, 3);
    }
    return status;
}

mt_status mt_trace_steps(struct mt_trace *trace, const struct mt_run *run, struct mt_steps_row *out)
{
    *out = (struct mt_steps_row){.oom_bytes = -1, .oom_category = "", .oom_phase = "", .oom_span = ""};
    mt_status status = read_settings(trace, run, out);
    for (int part = 0; part < MT_TIMED_PART_COUNT && status == MT_OK; part++)
        status = time_part(trace, run, (mt_timed_part)part, out->warmup, &out->part[part]);
    if (status == MT_OK && mt_run_is(run, MT_RUN_OOM))
        status = read_oom(trace, run, out);
    return status;
}
