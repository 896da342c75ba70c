/* How long did the steps of a run take? */
#include "base/memory.h"
#include "trace/query/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const part_names[] = {
#define X(name, text, measurement) text,
    MT_TIMED_PARTS(X)
#undef X
};
static const char *const part_measurements[] = {
#define X(name, text, measurement) measurement,
    MT_TIMED_PARTS(X)
#undef X
};

const char *mt_timed_part_name(mt_timed_part part)
{
    return part_names[part];
}

static int compare_numbers(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* From the mean, in a second pass: what the sum of squares would lose where times differ little stays. */
static double deviation_of(const double *ms, int64_t count, double mean)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (ms[i] - mean) * (ms[i] - mean);
    return count > 1 ? sqrt(sum / (double)(count - 1)) : NAN;
}

/* Sorts them. */
static struct mt_time_statistics statistics_of(double *ms, int64_t count)
{
    if (count == 0)
        return (struct mt_time_statistics){0, NAN, NAN, NAN, NAN, NAN};
    qsort(ms, (size_t)count, sizeof *ms, compare_numbers);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += ms[i];
    double mean = sum / (double)count;
    return (struct mt_time_statistics){.count = count,
                                       .mean = mean,
                                       .deviation = deviation_of(ms, count, mean),
                                       .median = (ms[(count - 1) / 2] + ms[count / 2]) / 2,
                                       .minimum = ms[0],
                                       .maximum = ms[count - 1]};
}

static mt_status time_part(struct mt_trace *trace, const struct mt_run *run, mt_timed_part part, int64_t warmup,
                           struct mt_time_statistics *out)
{
    struct mt_measurement_row *rows;
    size_t count;
    mt_status status = mt_trace_measurements(trace, run, part_measurements[part], &rows, &count);
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

/* "" of a run that says neither. */
static const char *precision(const char *autocast, const char *matmul)
{
    if (autocast[0] == '\0' && matmul[0] == '\0')
        return "";
    if (strcmp(autocast, "bf16") == 0)
        return "bf16 autocast";
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

/* The last of the run: what follows it is only what the program gave back. */
static const char oom_sql[] = "SELECT event.requested_bytes, label.category, label.phase, span.path FROM event"
                              " LEFT JOIN label ON label.run = ?1 AND label.id = event.label"
                              " LEFT JOIN span ON span.run = ?1 AND span.id = coalesce(event.span, label.span)"
                              " WHERE event.id >= ?2 AND event.id < ?3 AND event.kind = ?4"
                              " ORDER BY event.id DESC LIMIT 1";

static mt_status read_oom(struct mt_trace *trace, const struct mt_run *run, struct mt_steps_row *out)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run, oom_sql, &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, run->first_event);
    mt_statement_bind_integer(statement, 3, run->first_event + run->event_count);
    mt_statement_bind_integer(statement, 4, MT_EVENT_OOM);
    bool row;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row) {
        out->oom_bytes = mt_statement_integer(statement, 0);
        out->oom_category = mt_query_text(trace, statement, 1);
        out->oom_phase = mt_query_text(trace, statement, 2);
        out->oom_span = mt_query_text(trace, statement, 3);
    }
    mt_statement_finalize(statement);
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
