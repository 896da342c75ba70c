#include "cli/run/sweep_report.h"

#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/report_form.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cell and its run in the trace. Times are measured by the device's clock. */
struct row {
    const struct mt_sweep_cell *cell;
    struct mt_sweep_result result;
    const struct mt_run *run; /* NULL: none */
    struct mt_steps_row steps;
    const struct mt_steps_row *oom;           /* NULL: it did not run out of memory */
    uint64_t allocated_bytes, reserved_bytes; /* the peaks; 0: no run */
    const char *name, *state;
    bool was_there, time_is_estimated;
    json_t *axes;
    char *values[MT_SETTING_COUNT]; /* of axes, in the shown form; owned */
    struct mt_text told;            /* the state in words */
    double step_ms;                 /* this and the others: NAN if unknown */
    double variation;               /* standard deviation of the step time, relative to its mean */
    double speedup;                 /* step_ms of the first row with the same work, divided by this row's */
    struct mt_figure step, tokens, warmup, total; /* with "est. " for estimates */
};

/* The results of a run: for JSON, and for the columns of tables. */
static const struct mt_field result_fields[] = {
    MT_SOME_BYTES(struct row, allocated_bytes, "allocated_bytes", "peak allocated",
                  "the peak; of a run that ended early, until then"),
    MT_SOME_BYTES(struct row, reserved_bytes, "reserved_bytes", "reserved", NULL),
    MT_FIELD(FIGURE, struct mt_figure, struct row, step, "step_ms", "step ms",
             "mean of the steps after the warm-up, by the device's clock"),
    MT_SHARE(struct row, variation, "variation", "cv", "the deviation of a step by its mean, of a sample"),
    MT_FIELD(FIGURE, struct mt_figure, struct row, tokens, "tokens_per_s", "tokens/s", NULL),
    MT_NUMBER_AS(struct row, speedup, "speedup", "speed-up", "%.2f",
                 "of a step, over the first row of the same model, mode, seq, batch, optimizer and warmup"),
    MT_FIELD(FIGURE, struct mt_figure, struct row, warmup, "warmup_s", "warm-up s", "of all steps of the warm-up"),
    MT_FIELD(FIGURE, struct mt_figure, struct row, total, "total_s", "total s", "of all steps, the warm-up included"),
    MT_FIELDS_END,
};
enum { RESULT_COUNT = sizeof result_fields / sizeof result_fields[0] - 1 };
static const struct mt_row_type result_type = MT_ROW_TYPE(struct row, result_fields);

static const struct mt_field row_fields[] = {
    MT_POSITIVE(struct row, result.run, "run", NULL, NULL),
    MT_TEXT(struct row, name, "name", NULL, NULL),
    MT_TEXT(struct row, state, "state", NULL, NULL),
    MT_FLAG(struct row, was_there, "was_there", NULL, "not run again"),
    MT_MEMBERS(
        struct row, axes,
        "the cell: `model`, `mode`, `autocast`, `autocast_end`, `attention`, `seq`, `batch`, `optimizer`, `zero_grad`, "
        "`keep_output`, `warmup`, `impl`, `weight_cast`, `checkpoint`, `optimizer_in_backward`, `moments`, "
        "`loss_slices`, `alloc`; `seq`, `batch`, `warmup` and `loss_slices` are numbers"),
    MT_FIELDS_OF(&result_type),
    MT_FLAG(struct row, time_is_estimated, "time_is_estimated", NULL, "on sim"),
    MT_ROW_OR_NULL(struct row, oom, "oom", &mt_steps_oom_type, NULL),
    MT_FIELD(TEXT, char *, struct row, result.error, "error", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct row, row_fields);

/* A column of CSV, where times are only numbers. */
static const struct mt_field estimate_field =
    MT_FLAG(struct row, time_is_estimated, "time_is_estimated", NULL, "on sim");

/* The last columns of tables. */
static const struct mt_field end_fields[] = {
    MT_POSITIVE(struct row, result.run, "run", "run", NULL),
    MT_OWNED(struct row, told, "state", "state", NULL),
    MT_FIELDS_END,
};

/* All cells, and the number of cells for each outcome. */
struct answer {
    const char *trace;
    size_t done, oom, failed, was_there;
    struct row *rows;
    size_t count;
};

static const struct mt_field answer_fields[] = {
    MT_TEXT(struct answer, trace, "trace", NULL, NULL),
    MT_COUNT(struct answer, done, "done", NULL, NULL),
    MT_COUNT(struct answer, oom, "oom", NULL, NULL),
    MT_COUNT(struct answer, failed, "failed", NULL, NULL),
    MT_COUNT(struct answer, was_there, "was_there", NULL, NULL),
    MT_ROWS(struct answer, rows, count, "rows", &row_type, NULL),
    MT_FIELDS_END,
};
const struct mt_row_type mt_sweep_answer_type = MT_ROW_TYPE(struct answer, answer_fields);

/* Adds the cell's value of the axis, or the default. A given value is added as it was written. */
static void add_axis_value(const struct mt_sweep_cell *cell, mt_setting axis, struct mt_text *text)
{
    if (mt_setting_table[axis].kind == MT_SETTING_IS_TEXT && cell->value[axis] != NULL)
        mt_text_add(text, "%s", cell->value[axis]);
    else
        mt_setting_format(axis, &cell->plan, text);
}

/* Returns the cell's values by axis, as numbers if possible. */
static json_t *axes_json(const struct mt_sweep_cell *cell)
{
    struct mt_text text = {0};
    json_t *object = json_object();
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++) {
        if (mt_setting_table[axis].axis == MT_AXIS_NONE)
            continue;
        text.length = 0;
        add_axis_value(cell, axis, &text);
        json_object_set_new(object, mt_setting_table[axis].name, mt_run_setting_json(axis, mt_text_get(&text)));
    }
    mt_text_release(&text);
    return object;
}

static bool is_oom(const struct row *row)
{
    return row->run != NULL && mt_run_is(row->run, MT_RUN_OOM);
}

/* Returns a time or a rate, marked if it is an estimate. */
static struct mt_figure time_figure(const struct row *row, int decimals, double value)
{
    return mt_figure_number(value, "%s%.*f", row->time_is_estimated ? "est. " : "", decimals, value);
}

/* Sums the durations of the steps, and of the warm-up steps. */
static mt_status load_seconds(struct mt_trace *trace, struct row *row)
{
    struct mt_measurement_row *steps;
    size_t count;
    double warmup_ms = 0, total_ms = 0;
    mt_status status = mt_trace_measurements(trace, row->run, mt_timed_part_measurement(MT_TIMED_STEP), &steps, &count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        double ms = isnan(steps[i].value) ? 0 : steps[i].value;
        total_ms += ms;
        warmup_ms += steps[i].step < row->steps.warmup ? ms : 0;
    }
    if (status == MT_OK && count > 0) {
        row->warmup = time_figure(row, 3, warmup_ms / 1000);
        row->total = time_figure(row, 3, total_ms / 1000);
    }
    free(steps);
    return status;
}

/* Loads the data of the row's run from the trace. */
static mt_status load_run(struct mt_trace *trace, struct row *row)
{
    const struct mt_training_config *config = &row->cell->plan.config;
    MT_TRY(mt_trace_find_numbered(trace, row->result.run, &row->run));
    MT_TRY(mt_trace_steps(trace, row->run, &row->steps));
    MT_TRY(mt_trace_peak_bytes(trace, row->run, MT_MEASURE_ALLOCATED, &row->allocated_bytes));
    MT_TRY(mt_trace_peak_bytes(trace, row->run, MT_MEASURE_RESERVED, &row->reserved_bytes));
    const struct mt_time_statistics *time = &row->steps.part[MT_TIMED_STEP];
    row->name = row->run->name;
    row->state = row->run->state;
    row->time_is_estimated = mt_device_is_simulated(row->run->device);
    row->oom = row->steps.oom_bytes >= 0 ? &row->steps : NULL;
    if (time->count > 0 && time->mean > 0) {
        row->step_ms = time->mean;
        row->step = time_figure(row, 2, time->mean);
        row->variation = time->deviation / time->mean;
        row->tokens = time_figure(row, 0, (double)config->batch * (double)config->seq / (time->mean / 1000));
    }
    return load_seconds(trace, row);
}

static void add_state(const struct row *row, struct mt_text *text)
{
    if (row->result.outcome == MT_CELL_FAILED)
        mt_text_add(text, "failed: %.*s", (int)strcspn(row->result.error, "\n"), row->result.error);
    else if (is_oom(row) && row->oom != NULL)
        mt_text_add(text, "out of memory: %s asked for %s in %s", MT_SIZE((uint64_t)row->oom->oom_bytes),
                    row->oom->oom_category, row->oom->oom_phase);
    else
        mt_text_add(text, "%s", row->run->state);
    if (row->was_there)
        mt_text_add(text, ", was there");
}

/* Sets the texts of the row's axes and of its state. */
static void tell_row(struct row *row)
{
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++) {
        struct mt_text value = {0};
        if (mt_setting_table[axis].axis != MT_AXIS_NONE)
            add_axis_value(row->cell, axis, &value);
        row->values[axis] = value.data;
    }
    add_state(row, &row->told);
}

static mt_status load_row(const struct mt_sweep *sweep, size_t cell, struct mt_trace *trace, struct row *out)
{
    const struct mt_sweep_result *result = &sweep->results[cell];
    *out = (struct row){.cell = &sweep->grid->cells[cell],
                        .result = *result,
                        .name = sweep->grid->cells[cell].name,
                        .state = mt_run_state_name(MT_RUN_FAILED),
                        .was_there = result->outcome == MT_CELL_WAS_THERE,
                        .axes = axes_json(&sweep->grid->cells[cell]),
                        .step_ms = NAN,
                        .variation = NAN,
                        .speedup = NAN};
    mt_status status = result->run != 0 ? load_run(trace, out) : MT_OK;
    if (status == MT_OK)
        tell_row(out);
    return status;
}

/* True if a step of both rows does the same work, possibly in different ways. */
static bool is_same_work(const struct row *a, const struct row *b)
{
    static const mt_setting work[] = {MT_SETTING_MODEL, MT_SETTING_MODE,      MT_SETTING_SEQ,
                                      MT_SETTING_BATCH, MT_SETTING_OPTIMIZER, MT_SETTING_WARMUP};
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++)
        if (strcmp(a->values[work[i]], b->values[work[i]]) != 0)
            return false;
    return true;
}

/* Compares each row with the first row with the same work, possibly itself. */
static void compare_rows(struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        while (!is_same_work(&rows[first], &rows[i]))
            first++;
        assert(first <= i);
        rows[i].speedup = rows[first].step_ms / rows[i].step_ms;
    }
}

static void count_row(const struct row *row, struct answer *answer)
{
    bool has_failed = row->result.outcome == MT_CELL_FAILED;
    answer->failed += has_failed;
    answer->was_there += row->was_there;
    answer->oom += is_oom(row);
    answer->done += !has_failed && !is_oom(row);
}

/* Loads the rows, in the order of the grid. Borrows texts from *out_trace, which is NULL if no cell has a run. */
static mt_status load(const struct mt_sweep *sweep, struct mt_trace **out_trace, struct answer *out)
{
    size_t count = sweep->grid->cell_count;
    bool has_runs = false;
    for (size_t i = 0; i < count; i++)
        has_runs = has_runs || sweep->results[i].run != 0;
    *out_trace = NULL;
    *out = (struct answer){.trace = sweep->trace, .rows = mt_host_alloc(count * sizeof *out->rows)};
    mt_status status = has_runs ? mt_trace_open(sweep->trace, out_trace) : MT_OK;
    while (out->count < count && status == MT_OK) {
        struct row *row = &out->rows[out->count++];
        status = load_row(sweep, out->count - 1, *out_trace, row);
        count_row(row, out);
    }
    assert(out->done + out->oom <= out->count);
    if (status == MT_OK)
        compare_rows(out->rows, out->count);
    return status;
}

static bool is_shown(const struct mt_sweep_grid *grid, mt_setting axis)
{
    return mt_setting_table[axis].axis == MT_AXIS_ALWAYS || grid->value_count[axis] > 1;
}

/* Writes "zero-grad" into `text`, and returns it. */
static const char *axis_title(mt_setting axis, char text[MT_OPTION_TEXT_BYTES])
{
    return mt_run_option_spell(axis, text) + strlen("--");
}

void mt_sweep_describe_cell(const struct mt_sweep_grid *grid, const struct mt_sweep_cell *cell, struct mt_text *out)
{
    char title[MT_OPTION_TEXT_BYTES];
    const char *before = "";
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++) {
        if (!is_shown(grid, axis))
            continue;
        mt_text_add(out, "%s", before);
        if (!mt_setting_table[axis].is_plain)
            mt_text_add(out, "%s ", axis_title(axis, title));
        add_axis_value(cell, axis, out);
        before = ", ";
    }
}

/* The columns of a table, and the names of those that a narrow terminal leaves out, in that order. */
enum { END_COUNT = 2, MOST_COLUMNS = MT_SETTING_COUNT + RESULT_COUNT + 1 + END_COUNT };
struct columns {
    struct mt_field fields[MOST_COLUMNS + 1]; /* for mt_row_type */
    size_t count;
    struct mt_text spare;
    char titles[MT_SETTING_COUNT][MT_OPTION_TEXT_BYTES];
};

static void add_axis(const struct mt_sweep_grid *grid, mt_setting axis, struct columns *out)
{
    bool is_number = mt_setting_table[axis].kind == MT_SETTING_IS_INTEGER;
    out->fields[out->count++] = (struct mt_field){.kind = is_number ? MT_FIELD_DIGITS : MT_FIELD_TEXT,
                                                  .offset = offsetof(struct row, values) + axis * sizeof(char *),
                                                  .name = mt_setting_table[axis].name,
                                                  .heading = axis_title(axis, out->titles[axis])};
    if (grid->value_count[axis] <= 1)
        mt_text_add(&out->spare, "%s ", mt_setting_table[axis].name);
}

/* True if the column has information: a speed-up over another row, a warm-up. */
static bool has_column(const struct answer *answer, const struct mt_field *field)
{
    bool is_speedup = field->offset == offsetof(struct row, speedup);
    if (!is_speedup && field->offset != offsetof(struct row, warmup))
        return true;
    for (size_t i = 0; i < answer->count; i++)
        if (is_speedup ? i > 0 && is_same_work(&answer->rows[0], &answer->rows[i])
                       : answer->rows[i].cell->plan.config.warmup > 0)
            return true;
    return false;
}

static bool is_column(const struct columns *columns, const char *name)
{
    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->fields[i].name, name) == 0)
            return true;
    return false;
}

/* Chooses the columns. A narrow terminal first leaves out those with equal values in all cells, then the least
 * interesting ones. */
static void choose_columns(const struct mt_sweep_grid *grid, const struct answer *answer, mt_report_form form,
                           struct columns *out)
{
    static const char *const spare[] = {"warmup_s", "total_s",      "variation", "step_ms",
                                        "run",      "tokens_per_s", "speedup",   "reserved_bytes"};
    *out = (struct columns){.count = 0};
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++)
        if (is_shown(grid, axis))
            add_axis(grid, axis, out);
    for (size_t i = 0; i < RESULT_COUNT; i++)
        if (has_column(answer, &result_fields[i]))
            out->fields[out->count++] = result_fields[i];
    if (form == MT_REPORT_CSV)
        out->fields[out->count++] = estimate_field;
    for (size_t i = 0; i < END_COUNT; i++)
        out->fields[out->count++] = end_fields[i];
    for (size_t i = 0; i < sizeof spare / sizeof spare[0]; i++)
        if (is_column(out, spare[i]))
            mt_text_add(&out->spare, "%s ", spare[i]);
}

static void print_tally(const struct mt_sweep_grid *grid, const struct answer *answer)
{
    struct mt_text text = {0};
    mt_text_add(&text, "\n%zu cell%s: %zu done, %zu out of memory, %zu failed", answer->count,
                answer->count == 1 ? "" : "s", answer->done, answer->oom, answer->failed);
    if (answer->was_there > 0)
        mt_text_add(&text, "; %zu were in the trace already (--again runs them anew)", answer->was_there);
    mt_print_line(&text);
    if (mt_device_is_simulated(grid->cells[0].plan.device))
        mt_print_wrapped("Times on sim are estimates, from the figures of the card that it stands for (docs/cards.md).",
                         0);
}

static mt_status print_table(const struct mt_sweep_grid *grid, const struct answer *answer, mt_report_form form)
{
    mt_status status = MT_OK;
    struct columns columns;
    choose_columns(grid, answer, form, &columns);
    const struct mt_row_type type = MT_ROW_TYPE(struct row, columns.fields);
    if (form == MT_REPORT_CSV) {
        status = mt_rows_print_csv(&type, answer->rows, answer->count);
    } else if (form == MT_REPORT_MARKDOWN) {
        status = mt_rows_print_markdown("Sweep", "cells", answer->trace, &type, answer->rows, answer->count);
    } else {
        mt_rows_print(&type, NULL, mt_text_get(&columns.spare), answer->rows, answer->count);
        print_tally(grid, answer);
    }
    mt_text_release(&columns.spare);
    return status;
}

static void release(struct answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++)
            free(answer->rows[i].values[axis]);
        mt_text_release(&answer->rows[i].told);
        json_decref(answer->rows[i].axes);
    }
    free(answer->rows);
}

mt_status mt_sweep_report(const struct mt_sweep *sweep, mt_report_form form)
{
    struct mt_trace *trace;
    struct answer answer;
    mt_status status = load(sweep, &trace, &answer);
    if (status == MT_OK && form == MT_REPORT_JSON)
        mt_answer_print_json("sweep", &mt_sweep_answer_type, &answer);
    else if (status == MT_OK)
        status = print_table(sweep->grid, &answer, form);
    release(&answer);
    mt_trace_close(trace);
    return status;
}
