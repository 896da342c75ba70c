#include "cli/run/sweep_report.h"

#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Counts of cells by their end. */
struct tally {
    size_t done, oom, failed, there;
};

/* A cell, and its run as the trace has it. */
struct row {
    const struct mt_sweep_cell *cell;
    const struct mt_sweep_result *result;
    const struct mt_run *run; /* NULL: it has none */
    struct mt_steps_row steps;
    uint64_t allocated_bytes, reserved_bytes; /* the peaks */
};

static mt_status load_peak(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, uint64_t *out_bytes)
{
    struct mt_peak_row peak = {0};
    mt_status status = mt_trace_peak(trace, run, measure, &peak);
    *out_bytes = peak.bytes;
    mt_peak_row_release(&peak);
    return status;
}

static mt_status load_row(const struct mt_sweep *sweep, size_t cell, struct mt_trace *trace, struct row *out)
{
    *out = (struct row){.cell = &sweep->grid->cells[cell], .result = &sweep->results[cell]};
    out->steps.oom_bytes = -1;
    if (out->result->run == 0)
        return MT_OK;
    char number[MT_BYTES_TEXT];
    snprintf(number, sizeof number, "%" PRId64, out->result->run);
    mt_status status = mt_trace_find_run(trace, number, &out->run);
    if (status == MT_OK)
        status = mt_trace_steps(trace, out->run, &out->steps);
    if (status == MT_OK)
        status = load_peak(trace, out->run, MT_MEASURE_ALLOCATED, &out->allocated_bytes);
    return status == MT_OK ? load_peak(trace, out->run, MT_MEASURE_RESERVED, &out->reserved_bytes) : status;
}

static bool is_oom(const struct row *row)
{
    return row->run != NULL && mt_run_is(row->run, MT_RUN_OOM);
}

static void count_row(const struct row *row, struct tally *tally)
{
    tally->failed += row->result->outcome == MT_CELL_FAILED;
    tally->there += row->result->outcome == MT_CELL_WAS_THERE;
    tally->oom += is_oom(row);
    tally->done += row->result->outcome != MT_CELL_FAILED && !is_oom(row);
}

typedef void (*row_visit)(void *context, const struct row *row);

/* Calls `visit` with every cell's row, in the order of the grid, and counts them. */
static mt_status visit_rows(const struct mt_sweep *sweep, row_visit visit, void *context, struct tally *out)
{
    bool has_runs = false;
    for (size_t i = 0; i < sweep->grid->cell_count; i++)
        has_runs = has_runs || sweep->results[i].run != 0;
    struct mt_trace *trace = NULL;
    mt_status status = has_runs ? mt_trace_open(sweep->trace, &trace) : MT_OK;
    *out = (struct tally){0};
    for (size_t i = 0; i < sweep->grid->cell_count && status == MT_OK; i++) {
        struct row row;
        status = load_row(sweep, i, trace, &row);
        if (status != MT_OK)
            break;
        visit(context, &row);
        count_row(&row, out);
    }
    mt_trace_close(trace);
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

/* Adds the value of the cell on that axis, given or not; a text as it was given. */
static void add_axis_value(const struct mt_sweep_cell *cell, mt_setting axis, struct mt_text *text)
{
    if (mt_setting_table[axis].kind == MT_SETTING_IS_TEXT && cell->value[axis] != NULL)
        mt_text_add(text, "%s", cell->value[axis]);
    else
        mt_setting_format(axis, &cell->plan, text);
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
    if (row->result->outcome == MT_CELL_FAILED)
        mt_text_add(text, "failed: %.*s", (int)strcspn(row->result->error, "\n"), row->result->error);
    else if (is_oom(row) && row->steps.oom_bytes >= 0)
        mt_text_add(text, "out of memory: %s asked for %s in %s",
                    mt_format_bytes((uint64_t)row->steps.oom_bytes, asked), row->steps.oom_category,
                    row->steps.oom_phase);
    else
        mt_text_add(text, "%s", row->run->state);
    if (row->result->outcome == MT_CELL_WAS_THERE)
        mt_text_add(text, ", was there");
}

struct table_context {
    struct mt_table *table;
    const struct mt_sweep_grid *grid;
};

static void add_results(struct mt_table *table, const struct row *row)
{
    char ms[MT_BYTES_TEXT] = "-";
    const struct mt_time_statistics *time = &row->steps.part[MT_TIMED_STEP];
    if (row->run == NULL) {
        for (int i = 0; i < 4; i++)
            mt_table_add(table, "-");
        return;
    }
    mt_table_add_bytes(table, row->allocated_bytes);
    mt_table_add_bytes(table, row->reserved_bytes);
    if (time->count > 0)
        snprintf(ms, sizeof ms, "%.2f", time->mean);
    mt_table_add(table, ms);
    mt_table_add_number(table, row->run->id);
}

static void add_row(void *context, const struct row *row)
{
    struct table_context *into = context;
    struct mt_text text = {0};
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++) {
        if (!is_shown(into->grid, axis))
            continue;
        text.length = 0;
        add_axis_value(row->cell, axis, &text);
        mt_table_add(into->table, mt_text_get(&text));
    }
    add_results(into->table, row);
    text.length = 0;
    add_state(row, &text);
    mt_table_add(into->table, mt_text_get(&text));
    mt_text_release(&text);
}

/* The columns of a table, and those that a narrow terminal leaves out, the first of them first. */
struct columns {
    struct mt_column items[MOST_COLUMNS];
    size_t count;
    const char *spare[MOST_COLUMNS + 1];
    char titles[MT_SETTING_COUNT][MT_OPTION_TEXT_BYTES];
};

/* Spares what is the same in all cells, then what is asked for least. */
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

static void print_tally(const struct mt_sweep *sweep, const struct tally *tally)
{
    printf("\n%zu cell%s: %zu done, %zu out of memory, %zu failed", sweep->grid->cell_count,
           sweep->grid->cell_count == 1 ? "" : "s", tally->done, tally->oom, tally->failed);
    if (tally->there > 0)
        printf("; %zu were in the trace already (--again runs them anew)", tally->there);
    putchar('\n');
    if (mt_device_is_simulated(sweep->grid->cells[0].plan.device))
        mt_print_wrapped("Times on sim are estimates: each op's roofline time on the card that it stands for.", 0);
}

mt_status mt_sweep_print_table(const struct mt_sweep *sweep)
{
    struct columns columns;
    choose_columns(sweep->grid, &columns);
    struct table_context context = {mt_table_create(columns.items, columns.count), sweep->grid};
    mt_table_spare(context.table, columns.spare);
    struct tally tally;
    mt_status status = visit_rows(sweep, add_row, &context, &tally);
    if (status == MT_OK) {
        mt_table_print(context.table);
        print_tally(sweep, &tally);
    }
    mt_table_destroy(context.table);
    return status;
}

static json_t *oom_json(const struct row *row)
{
    const struct mt_steps_row *steps = &row->steps;
    if (steps->oom_bytes < 0)
        return json_null();
    return json_pack("{s:I, s:o, s:o, s:o}", "requested_bytes", (json_int_t)steps->oom_bytes, "category",
                     mt_json_text(steps->oom_category), "phase", mt_json_text(steps->oom_phase), "span",
                     mt_json_text(steps->oom_span));
}

/* Adds the axes as members, numbers where they are some. */
static void add_axes_json(const struct mt_sweep_cell *cell, json_t *object)
{
    struct mt_text text = {0};
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++) {
        if (mt_setting_table[axis].axis == MT_AXIS_NONE)
            continue;
        text.length = 0;
        add_axis_value(cell, axis, &text);
        json_object_set_new(object, mt_setting_table[axis].name, mt_run_setting_json(axis, mt_text_get(&text)));
    }
    mt_text_release(&text);
}

static json_t *known_integer(const struct row *row, uint64_t value)
{
    return row->run != NULL ? json_integer((json_int_t)value) : json_null();
}

static void append_json(void *context, const struct row *row)
{
    const struct mt_time_statistics *time = &row->steps.part[MT_TIMED_STEP];
    json_t *object = json_pack("{s:o, s:o, s:o, s:b}", "run", known_integer(row, (uint64_t)row->result->run), "name",
                               mt_json_text(row->run != NULL ? row->run->name : row->cell->name), "state",
                               mt_json_text(row->run != NULL ? row->run->state : mt_run_state_name(MT_RUN_FAILED)),
                               "was_there", row->result->outcome == MT_CELL_WAS_THERE);
    add_axes_json(row->cell, object);
    json_object_set_new(object, "allocated_bytes", known_integer(row, row->allocated_bytes));
    json_object_set_new(object, "reserved_bytes", known_integer(row, row->reserved_bytes));
    json_object_set_new(object, "step_ms", mt_json_number(time->count > 0 ? time->mean : NAN));
    json_object_set_new(object, "oom", oom_json(row));
    json_object_set_new(object, "error", mt_json_text(row->result->error));
    json_array_append_new(context, object);
}

mt_status mt_sweep_print_json(const struct mt_sweep *sweep)
{
    json_t *rows = json_array();
    struct tally tally;
    mt_status status = visit_rows(sweep, append_json, rows, &tally);
    if (status != MT_OK) {
        json_decref(rows);
        return status;
    }
    mt_json_print(json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:o}", "schema", "memtrace.sweep/1", "trace",
                            mt_json_text(sweep->trace), "done", (int)tally.done, "oom", (int)tally.oom, "failed",
                            (int)tally.failed, "was_there", (int)tally.there, "rows", rows));
    return MT_OK;
}
