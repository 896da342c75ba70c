/* memtrace steps: the durations of steps, for each run. */
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "device/device.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct steps_options {
    struct mt_trace_options trace;
    bool full;
};

static const struct mt_option options[] = {
    MT_RUN_ARGUMENT,
    MT_OPTION(FLAG, struct steps_options, full, "--full",
              .help = "a row for each phase, with median, minimum and maximum"),
    MT_TRACE_OPTIONS,
};

static const struct mt_field time_fields[] = {
    MT_INTEGER(struct mt_time_statistics, count, "count", NULL, "of steps"),
    MT_NUMBER(struct mt_time_statistics, mean, "mean", NULL, NULL),
    MT_NUMBER(struct mt_time_statistics, deviation, "std", NULL, "of a sample; null for fewer than two"),
    MT_NUMBER(struct mt_time_statistics, median, "median", NULL, NULL),
    MT_NUMBER(struct mt_time_statistics, minimum, "min", NULL, NULL),
    MT_NUMBER(struct mt_time_statistics, maximum, "max", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type time_type = MT_ROW_TYPE(struct mt_time_statistics, time_fields);

static const struct mt_field times_fields[] = {
    MT_ROW(struct mt_steps_row, part[MT_TIMED_FORWARD], "forward", &time_type, "milliseconds by the device's clock"),
    MT_ROW(struct mt_steps_row, part[MT_TIMED_LOSS], "loss", &time_type, NULL),
    MT_ROW(struct mt_steps_row, part[MT_TIMED_BACKWARD], "backward", &time_type, NULL),
    MT_ROW(struct mt_steps_row, part[MT_TIMED_OPTIMIZER], "optimizer", &time_type, NULL),
    MT_ROW(struct mt_steps_row, part[MT_TIMED_STEP], "step", &time_type, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type times_type = MT_ROW_TYPE(struct mt_steps_row, times_fields);

enum { MEANS = 4, TIME_TEXT = 2 * MT_BYTES_TEXT };

/* A run or, in the full table, a part of its steps. */
struct row {
    struct mt_run run;
    struct mt_steps_row steps;
    const struct mt_steps_row *oom; /* NULL: it did not run out of memory */
    bool is_estimated;
    const char *part;                /* its name */
    struct mt_time_statistics time;  /* of the part */
    char means[MEANS][TIME_TEXT];    /* of forward, backward, optimizer and step */
    const char *shown[MEANS], *note; /* the shown form; the row owns `note` */
};

static const struct mt_field row_fields[] = {
    MT_INTEGER(struct row, run.id, "run", "run", NULL),
    MT_TEXT(struct row, run.name, "name", "name", NULL),
    MT_TEXT(struct row, run.state, "state", NULL, NULL),
    MT_TEXT(struct row, run.device, "device", "device", NULL),
    MT_TEXT(struct row, steps.model, "model", "model", NULL),
    MT_DIGITS(struct row, steps.batch, "batch", "batch", NULL),
    MT_DIGITS(struct row, steps.seq, "seq", "seq", NULL),
    MT_TEXT(struct row, steps.mode, "mode", "mode", NULL),
    MT_TEXT(struct row, steps.precision, "precision", "precision",
            "fp32, tf32, bf16 or fp16 autocast, fp8 and bf16 autocast, or empty"),
    MT_INTEGER(struct row, steps.warmup, "warmup", "warm-up", "steps that do not count"),
    MT_FLAG(struct row, is_estimated, "estimated", NULL, "true on sim"),
    MT_ROW(struct row, steps, "ms", &times_type, NULL),
    MT_ROW_OR_NULL(struct row, oom, "oom", &mt_steps_oom_type, "of a run that ended out of memory"),
    MT_SHOWN(INTEGER, int64_t, struct row, time.count, "steps", "steps"),
    MT_SHOWN(DIGITS, const char *, struct row, shown[0], "forward", "forward ms"),
    MT_SHOWN(DIGITS, const char *, struct row, shown[1], "backward", "backward ms"),
    MT_SHOWN(DIGITS, const char *, struct row, shown[2], "optimizer", "optimizer ms"),
    MT_SHOWN(DIGITS, const char *, struct row, shown[3], "step", "step ms"),
    MT_SHOWN(TEXT, const char *, struct row, note, "note", "note"),
    MT_SHOWN(TEXT, const char *, struct row, part, "of", "of"),
    MT_SHOWN(MS, double, struct row, time.mean, "mean", "mean ms"),
    MT_SHOWN(MS, double, struct row, time.deviation, "std", "std"),
    MT_SHOWN(MS, double, struct row, time.median, "median", "median"),
    MT_SHOWN(MS, double, struct row, time.minimum, "min", "min"),
    MT_SHOWN(MS, double, struct row, time.maximum, "max", "max"),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct row, row_fields);

#define RUN_FIELDS "run name device model batch seq mode precision warmup steps "
#define SPARE_FIELDS "warmup device mode batch steps model seq note precision name"

/* The rows of all runs. */
struct steps_answer {
    bool is_full; /* a row for each part of the steps */
    bool has_estimates, has_dry;
    struct row *rows;
    size_t count;
};
static const struct mt_field answer_fields[] = {
    MT_ROWS(struct steps_answer, rows, count, "rows", &row_type, "a run each, the oldest first"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct steps_answer, answer_fields);

/* Writes "12.30 ± 0.40"; "12.30" for one step; "OOM", or "-" for a phase that the run does not have. */
static void write_mean(bool is_oom, const struct mt_time_statistics *time, char *text)
{
    if (time->count == 0)
        snprintf(text, TIME_TEXT, "%s", is_oom ? "OOM" : "-");
    else if (time->count == 1)
        snprintf(text, TIME_TEXT, "%.2f", time->mean);
    else
        snprintf(text, TIME_TEXT, "%.2f ± %.2f", time->mean, time->deviation);
}

/* Returns a remark about the times of the run; the caller frees it. */
static char *note_of(const struct row *row)
{
    struct mt_text note = {0};
    mt_text_add(&note, "%s", "");
    if (row->oom != NULL)
        mt_text_add(&note, "OOM: %s asked for %s in %s", MT_SIZE((uint64_t)row->oom->oom_bytes), row->oom->oom_category,
                    row->oom->oom_phase);
    else if (!mt_run_is(&row->run, MT_RUN_DONE))
        mt_text_add(&note, "%s", row->run.state);
    if (row->run.steps == 0)
        mt_text_add(&note, note.length > 0 ? "; no training steps" : "no training steps");
    else if (row->is_estimated)
        mt_text_add(&note, note.length > 0 ? "; estimate" : "estimate");
    return note.data != NULL ? note.data : mt_host_strdup("");
}

/* Sets the pointers to texts inside the row: do not move the row later. */
static void write_texts(struct row *row)
{
    static const mt_timed_part parts[MEANS] = {MT_TIMED_FORWARD, MT_TIMED_BACKWARD, MT_TIMED_OPTIMIZER, MT_TIMED_STEP};
    row->oom = row->steps.oom_bytes >= 0 ? &row->steps : NULL;
    for (int i = 0; i < MEANS; i++) {
        write_mean(mt_run_is(&row->run, MT_RUN_OOM), &row->steps.part[parts[i]], row->means[i]);
        row->shown[i] = row->means[i];
    }
    row->note = note_of(row);
}

static void add_part(struct steps_answer *answer, const struct row *row, mt_timed_part part)
{
    answer->rows = mt_host_room(answer->rows, answer->count, sizeof *answer->rows);
    struct row *out = &answer->rows[answer->count++];
    *out = *row;
    assert(part == MT_TIMED_STEP || answer->is_full);
    out->part = mt_timed_part_name(part);
    out->time = row->steps.part[part];
}

/* Sets *out to true for a dry run, since its times are the host's. */
static mt_status find_dry(struct mt_trace *trace, const struct mt_run *run, bool *out)
{
    struct mt_setting_row *rows;
    size_t count;
    mt_status status = mt_trace_settings(trace, run, &rows, &count);
    const char *recorded = status == MT_OK ? mt_setting_find(rows, count, "recorded") : NULL;
    *out = recorded != NULL && strcmp(recorded, "dry") == 0;
    free(rows);
    return status;
}

static mt_status add_run(void *context, struct mt_trace *trace, const struct mt_run *run)
{
    struct steps_answer *answer = context;
    struct row row = {.run = *run, .is_estimated = mt_device_is_simulated(run->device)};
    mt_status status = mt_trace_steps(trace, run, &row.steps);
    bool is_dry = false;
    MT_THEN(status, find_dry(trace, run, &is_dry));
    answer->has_dry |= is_dry && run->steps > 0;
    answer->has_estimates |= row.is_estimated && !is_dry;
    for (int part = 0; part < MT_TIMED_STEP && status == MT_OK && answer->is_full; part++)
        if (row.steps.part[part].count > 0)
            add_part(answer, &row, (mt_timed_part)part);
    if (status == MT_OK)
        add_part(answer, &row, MT_TIMED_STEP);
    return status;
}

static void print_table(const struct steps_answer *answer)
{
    if (answer->is_full)
        mt_rows_print(&row_type, RUN_FIELDS "of mean std median min max note", SPARE_FIELDS, answer->rows,
                      answer->count);
    else
        mt_rows_print(&row_type, RUN_FIELDS "forward backward optimizer step note",
                      SPARE_FIELDS " optimizer forward backward", answer->rows, answer->count);
    if (answer->has_dry)
        putchar('\n');
    if (answer->has_dry)
        mt_print_wrapped(
            "Times of a dry run are the host's: nothing is computed on a card, so they do not show how long a "
            "step takes there.",
            0);
    if (!answer->has_estimates)
        return;
    putchar('\n');
    mt_print_wrapped("Times on sim are estimates, from the figures of the card that it stands for (docs/cards.md).", 0);
}

static void release(struct steps_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        free((char *)answer->rows[i].note);
    free(answer->rows);
}

static mt_status run_steps(const void *given)
{
    const struct steps_options *steps = given;
    struct steps_answer answer = {.is_full = steps->full && !steps->trace.json};
    struct mt_trace *trace;
    MT_TRY(mt_trace_open_to_ask(steps->trace.trace, &trace));
    mt_status status = mt_runs_visit(trace, steps->trace.run, add_run, &answer);
    for (size_t i = 0; i < answer.count; i++)
        write_texts(&answer.rows[i]);
    if (status == MT_OK && steps->trace.json)
        mt_answer_print_json("steps", &answer_type, &answer);
    else if (status == MT_OK)
        print_table(&answer);
    release(&answer);
    mt_trace_close(trace);
    return status;
}

const struct mt_command mt_command_steps = {
    .name = "steps",
    .summary = "Shows how long forward, backward, optimizer and step took in each run, without the warm-up.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "Covers all runs of the trace, or the one of --run: mean and sample standard deviation over the steps after\n"
        "the warm-up, by the device's clock. The loss belongs to neither forward nor backward: it is part of the\n"
        "step, and --full and --json show it separately. A run that ended out of memory shows OOM and the request\n"
        "that failed. Times on sim are estimates.\n",
    .examples = "  memtrace steps\n"
                "  memtrace steps --full\n"
                "  memtrace steps --json\n",
    .options = options,
    MT_OPTIONS_OF(struct steps_options, .trace.trace = MT_DEFAULT_TRACE),
    .answer = &answer_type,
    .run = run_steps,
};
