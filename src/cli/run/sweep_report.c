#include "cli/run/sweep_report.h"

#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cell, and its run as the trace has it. */
struct row {
    const struct mt_sweep_cell *cell;
    struct mt_sweep_result result;
    const struct mt_run *run; /* NULL: it has none */
    struct mt_steps_row steps;
    const struct mt_steps_row *oom;          /* NULL: it did not run out of memory */
    int64_t allocated_bytes, reserved_bytes; /* the peaks; below 0: there is no run */
    const char *name, *state;
    bool was_there, time_is_estimated;
    json_t *axes;
    double step_ms;
};

static const struct mt_field row_fields[] = {
    MT_POSITIVE(struct row, result.run, "run", NULL, NULL),
    MT_TEXT(struct row, name, "name", NULL, NULL),
    MT_TEXT(struct row, state, "state", NULL, NULL),
    MT_FLAG(struct row, was_there, "was_there", NULL, "not run again"),
    MT_MEMBERS(
        struct row, axes,
        "the cell: `model`, `mode`, `autocast`, `autocast_end`, `attention`, `seq`, `batch`, `optimizer`, `zero_grad`, "
        "`keep_output`, `impl`, `weight_cast`, `checkpoint`, `optimizer_in_backward`, `alloc`; `seq` and `batch` are "
        "numbers"),
    MT_KNOWN(struct row, allocated_bytes, "allocated_bytes", NULL, "the peak; of a run that ended early, until then"),
    MT_KNOWN(struct row, reserved_bytes, "reserved_bytes", NULL, NULL),
    MT_MS(struct row, step_ms, "step_ms", NULL, "mean of the steps after the warm-up, by the device's clock"),
    MT_FLAG(struct row, time_is_estimated, "time_is_estimated", NULL, "on sim"),
    MT_ROW_OR_NULL(struct row, oom, "oom", &mt_steps_oom_type, NULL),
    MT_FIELD(TEXT, char *, struct row, result.error, "error", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct row, row_fields);

/* All cells, and how many of them ended so. */
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

/* Adds the cell's value of the axis, given or not. A text is added as it was given. */
static void add_axis_value(const struct mt_sweep_cell *cell, mt_setting axis, struct mt_text *text)
{
    if (mt_setting_table[axis].kind == MT_SETTING_IS_TEXT && cell->value[axis] != NULL)
        mt_text_add(text, "%s", cell->value[axis]);
    else
        mt_setting_format(axis, &cell->plan, text);
}

/* Returns the cell's values by axis, numbers where they are some. */
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

/* Reads what the trace has of the row's run. */
static mt_status load_run(struct mt_trace *trace, struct row *row)
{
    uint64_t allocated, reserved;
    MT_TRY(mt_trace_find_numbered(trace, row->result.run, &row->run));
    MT_TRY(mt_trace_steps(trace, row->run, &row->steps));
    MT_TRY(mt_trace_peak_bytes(trace, row->run, MT_MEASURE_ALLOCATED, &allocated));
    MT_TRY(mt_trace_peak_bytes(trace, row->run, MT_MEASURE_RESERVED, &reserved));
    const struct mt_time_statistics *time = &row->steps.part[MT_TIMED_STEP];
    row->allocated_bytes = (int64_t)allocated;
    row->reserved_bytes = (int64_t)reserved;
    row->name = row->run->name;
    row->state = row->run->state;
    row->step_ms = time->count > 0 ? time->mean : NAN;
    row->time_is_estimated = mt_device_is_simulated(row->run->device);
    row->oom = row->steps.oom_bytes >= 0 ? &row->steps : NULL;
    return MT_OK;
}

static mt_status load_row(const struct mt_sweep *sweep, size_t cell, struct mt_trace *trace, struct row *out)
{
    const struct mt_sweep_result *result = &sweep->results[cell];
    *out = (struct row){.cell = &sweep->grid->cells[cell],
                        .result = *result,
                        .allocated_bytes = -1,
                        .reserved_bytes = -1,
                        .name = sweep->grid->cells[cell].name,
                        .state = mt_run_state_name(MT_RUN_FAILED),
                        .was_there = result->outcome == MT_CELL_WAS_THERE,
                        .axes = axes_json(&sweep->grid->cells[cell]),
                        .step_ms = NAN};
    return result->run != 0 ? load_run(trace, out) : MT_OK;
}

static void count_row(const struct row *row, struct answer *answer)
{
    bool has_failed = row->result.outcome == MT_CELL_FAILED;
    answer->failed += has_failed;
    answer->was_there += row->was_there;
    answer->oom += is_oom(row);
    answer->done += !has_failed && !is_oom(row);
}

/* Loads the rows, in the order of the grid. Their texts are those of *out_trace, NULL if no cell has a run. */
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
    return status;
}

/* The columns of results, behind those of axes. */
static const struct mt_column result_columns[] = {{"peak allocated", MT_ALIGN_RIGHT},
                                                  {"reserved", MT_ALIGN_RIGHT},
                                                  {"step ms", MT_ALIGN_RIGHT},
                                                  {"run", MT_ALIGN_RIGHT},
                                                  {"state", MT_ALIGN_LEFT}};
enum {
    RESULT_COLUMNS = sizeof result_columns / sizeof result_columns[0],
    MOST_COLUMNS = MT_SETTING_COUNT + RESULT_COLUMNS
};

static bool is_shown(const struct mt_sweep_grid *grid, mt_setting axis)
{
    return mt_setting_table[axis].axis == MT_AXIS_ALWAYS || grid->value_count[axis] > 1;
}

/* Puts "zero-grad" into `text`, and returns it. */
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

static void add_state(const struct row *row, struct mt_text *text)
{
    char asked[MT_BYTES_TEXT];
    if (row->result.outcome == MT_CELL_FAILED)
        mt_text_add(text, "failed: %.*s", (int)strcspn(row->result.error, "\n"), row->result.error);
    else if (is_oom(row) && row->oom != NULL)
        mt_text_add(text, "out of memory: %s asked for %s in %s", mt_format_bytes((uint64_t)row->oom->oom_bytes, asked),
                    row->oom->oom_category, row->oom->oom_phase);
    else
        mt_text_add(text, "%s", row->run->state);
    if (row->was_there)
        mt_text_add(text, ", was there");
}

static void add_results(struct mt_table *table, const struct row *row)
{
    char ms[MT_BYTES_TEXT] = "-";
    if (row->run == NULL) {
        for (int i = 0; i < 4; i++)
            mt_table_add(table, "-");
        return;
    }
    mt_table_add_bytes(table, (uint64_t)row->allocated_bytes);
    mt_table_add_bytes(table, (uint64_t)row->reserved_bytes);
    if (!isnan(row->step_ms))
        snprintf(ms, sizeof ms, "%s%.2f", row->time_is_estimated ? "est. " : "", row->step_ms);
    mt_table_add(table, ms);
    mt_table_add_number(table, row->result.run);
}

static void add_row(struct mt_table *table, const struct mt_sweep_grid *grid, const struct row *row)
{
    struct mt_text text = {0};
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++) {
        if (!is_shown(grid, axis))
            continue;
        text.length = 0;
        add_axis_value(row->cell, axis, &text);
        mt_table_add(table, mt_text_get(&text));
    }
    add_results(table, row);
    text.length = 0;
    add_state(row, &text);
    mt_table_add(table, mt_text_get(&text));
    mt_text_release(&text);
}

/* The columns of a table, and those that a narrow terminal leaves out, the first of them first. */
struct columns {
    struct mt_column items[MOST_COLUMNS];
    size_t count;
    const char *spare[MOST_COLUMNS + 1];
    char titles[MT_SETTING_COUNT][MT_OPTION_TEXT_BYTES];
};

/* Chooses the columns. A narrow terminal leaves out first those that are the same in all cells, then those of
 * least interest. */
static void choose_columns(const struct mt_sweep_grid *grid, struct columns *out)
{
    size_t spare = 0;
    out->count = 0;
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++) {
        if (!is_shown(grid, axis))
            continue;
        const char *title = axis_title(axis, out->titles[axis]);
        bool is_number = mt_setting_table[axis].kind == MT_SETTING_IS_INTEGER;
        out->items[out->count++] = (struct mt_column){title, is_number ? MT_ALIGN_RIGHT : MT_ALIGN_LEFT};
        if (grid->value_count[axis] <= 1)
            out->spare[spare++] = title;
    }
    for (size_t i = 0; i < RESULT_COLUMNS; i++)
        out->items[out->count++] = result_columns[i];
    out->spare[spare++] = "step ms";
    out->spare[spare++] = "run";
    out->spare[spare++] = "reserved";
    out->spare[spare] = NULL;
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

static void print_table(const struct mt_sweep_grid *grid, const struct answer *answer)
{
    struct columns columns;
    choose_columns(grid, &columns);
    struct mt_table *table = mt_table_create(columns.items, columns.count);
    mt_table_spare(table, columns.spare);
    for (size_t i = 0; i < answer->count; i++)
        add_row(table, grid, &answer->rows[i]);
    mt_table_print(table);
    mt_table_destroy(table);
    print_tally(grid, answer);
}

mt_status mt_sweep_report(const struct mt_sweep *sweep, mt_report_form form)
{
    struct mt_trace *trace;
    struct answer answer;
    mt_status status = load(sweep, &trace, &answer);
    if (status == MT_OK && form == MT_REPORT_JSON)
        mt_answer_print_json("sweep", &mt_sweep_answer_type, &answer);
    else if (status == MT_OK)
        print_table(sweep->grid, &answer);
    for (size_t i = 0; i < answer.count; i++)
        json_decref(answer.rows[i].axes);
    free(answer.rows);
    mt_trace_close(trace);
    return status;
}
