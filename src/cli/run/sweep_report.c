#include "cli/run/sweep_report.h"

#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How many cells ended how. */
struct tally {
    size_t done, oom, failed, there;
};

/* A cell and what the trace tells of its run. */
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

/* The columns of a table: those that every sweep has, and those that only some grids vary. */
enum { MOST_COLUMNS = MT_AXIS_COUNT + 5 };
static const struct mt_column axis_columns[MT_AXIS_COUNT] = {
    [MT_AXIS_MODEL] = {"model", MT_ALIGN_LEFT},
    [MT_AXIS_MODE] = {"mode", MT_ALIGN_LEFT},
    [MT_AXIS_AUTOCAST] = {"autocast", MT_ALIGN_LEFT},
    [MT_AXIS_ATTENTION] = {"attention", MT_ALIGN_LEFT},
    [MT_AXIS_SEQ] = {"seq", MT_ALIGN_RIGHT},
    [MT_AXIS_BATCH] = {"batch", MT_ALIGN_RIGHT},
    [MT_AXIS_ZERO_GRAD] = {"zero-grad", MT_ALIGN_LEFT},
    [MT_AXIS_IMPL] = {"impl", MT_ALIGN_LEFT},
    [MT_AXIS_WEIGHT_CAST] = {"weight-cast", MT_ALIGN_LEFT},
    [MT_AXIS_CHECKPOINT] = {"checkpoint", MT_ALIGN_LEFT},
    [MT_AXIS_OPTIMIZER_IN_BACKWARD] = {"optimizer-in-backward", MT_ALIGN_LEFT},
    [MT_AXIS_ALLOC] = {"alloc", MT_ALIGN_LEFT}};
static const struct mt_column result_columns[] = {{"peak allocated", MT_ALIGN_RIGHT},
                                                  {"reserved", MT_ALIGN_RIGHT},
                                                  {"step ms", MT_ALIGN_RIGHT},
                                                  {"run", MT_ALIGN_RIGHT},
                                                  {"state", MT_ALIGN_LEFT}};

static bool is_shown(const struct mt_sweep_grid *grid, mt_sweep_axis axis)
{
    return (axis <= MT_AXIS_BATCH && axis != MT_AXIS_ATTENTION) || grid->value_count[axis] > 1;
}

/* What the cell has on that axis, given or not: into `text`. */
static void add_axis_value(const struct mt_sweep_cell *cell, mt_sweep_axis axis, struct mt_text *text)
{
    const struct mt_training_config *config = &cell->plan.config;
    switch (axis) {
    case MT_AXIS_MODEL:
        mt_text_add(text, "%s", cell->value[axis] != NULL ? cell->value[axis] : config->model.name);
        return;
    case MT_AXIS_MODE:
        mt_text_add(text, "%s", mt_mode_names[config->mode]);
        return;
    case MT_AXIS_AUTOCAST:
        mt_text_add(text, "%s", mt_autocast_names[config->autocast]);
        return;
    case MT_AXIS_ATTENTION:
        mt_text_add(text, "%s", mt_attention_names[config->attention]);
        return;
    case MT_AXIS_SEQ:
        mt_text_add(text, "%" PRId64, config->seq);
        return;
    case MT_AXIS_BATCH:
        mt_text_add(text, "%" PRId64, config->batch);
        return;
    case MT_AXIS_ZERO_GRAD:
        mt_text_add(text, "%s", mt_zero_grad_names[config->zero_grad]);
        return;
    case MT_AXIS_IMPL:
        mt_text_add(text, "%s", mt_implementation_names[config->implementation]);
        return;
    case MT_AXIS_WEIGHT_CAST:
        mt_text_add(text, "%s", mt_weight_cast_names[config->weight_cast]);
        return;
    case MT_AXIS_CHECKPOINT:
        mt_text_add(text, "%s", mt_checkpoint_names[config->checkpoint]);
        return;
    case MT_AXIS_OPTIMIZER_IN_BACKWARD:
        mt_text_add(text, "%s", mt_optimizer_in_backward_names[config->optimizer_in_backward]);
        return;
    case MT_AXIS_ALLOC:
        if (cell->value[axis] != NULL)
            mt_text_add(text, "%s", cell->value[axis]);
        else
            mt_alloc_settings_format(&cell->plan.alloc, text);
        return;
    case MT_AXIS_COUNT:
        return;
    }
}

void mt_sweep_describe_cell(const struct mt_sweep_grid *grid, const struct mt_sweep_cell *cell, struct mt_text *out)
{
    for (mt_sweep_axis axis = 0; axis < MT_AXIS_COUNT; axis++) {
        if (!is_shown(grid, axis))
            continue;
        bool speaks_for_itself = axis == MT_AXIS_MODEL || axis == MT_AXIS_MODE || axis == MT_AXIS_ALLOC;
        mt_text_add(out, "%s%s%s", axis > 0 ? ", " : "", speaks_for_itself ? "" : axis_columns[axis].title,
                    speaks_for_itself ? "" : " ");
        add_axis_value(cell, axis, out);
    }
}

/* What is told of a cell in words. */
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
    for (mt_sweep_axis axis = 0; axis < MT_AXIS_COUNT; axis++) {
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

static size_t choose_columns(const struct mt_sweep_grid *grid, struct mt_column *out)
{
    size_t count = 0;
    for (mt_sweep_axis axis = 0; axis < MT_AXIS_COUNT; axis++)
        if (is_shown(grid, axis))
            out[count++] = axis_columns[axis];
    for (size_t i = 0; i < sizeof result_columns / sizeof result_columns[0]; i++)
        out[count++] = result_columns[i];
    return count;
}

/* What a narrow terminal leaves out first: what is the same in all cells, then what is asked for least. */
static void choose_spare(const struct mt_sweep_grid *grid, const char **out)
{
    size_t count = 0;
    for (mt_sweep_axis axis = 0; axis < MT_AXIS_COUNT; axis++)
        if (is_shown(grid, axis) && grid->value_count[axis] <= 1)
            out[count++] = axis_columns[axis].title;
    out[count++] = "step ms";
    out[count++] = "run";
    out[count++] = "reserved";
    out[count] = NULL;
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
    struct mt_column columns[MOST_COLUMNS];
    const char *spare[MOST_COLUMNS + 1];
    size_t count = choose_columns(sweep->grid, columns);
    struct table_context context = {mt_table_create(columns, count), sweep->grid};
    choose_spare(sweep->grid, spare);
    mt_table_spare(context.table, spare);
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

/* The axes as members, numbers where they are some. */
static void add_axes_json(const struct mt_sweep_cell *cell, json_t *object)
{
    static const char *const keys[MT_AXIS_COUNT] = {"model",
                                                    "mode",
                                                    "autocast",
                                                    "attention",
                                                    "seq",
                                                    "batch",
                                                    "zero_grad",
                                                    "impl",
                                                    "weight_cast",
                                                    "checkpoint",
                                                    "optimizer_in_backward",
                                                    "alloc"};
    for (mt_sweep_axis axis = 0; axis < MT_AXIS_COUNT; axis++) {
        struct mt_text text = {0};
        add_axis_value(cell, axis, &text);
        json_object_set_new(object, keys[axis], mt_json_text(mt_text_get(&text)));
        mt_text_release(&text);
    }
    json_object_set_new(object, "seq", json_integer(cell->plan.config.seq));
    json_object_set_new(object, "batch", json_integer(cell->plan.config.batch));
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
