#include "cli/run/program_sweep_report.h"

#include "base/memory.h"
#include "cli/output/question.h"
#include "cli/output/report_form.h"
#include "cli/record/dry_options.h"

#include <stdlib.h>
#include <string.h>

/* A cell with its values. Borrows the cell's text. */
struct row {
    const char *values[MT_MOST_VARIED];
    json_t *axes;
    struct mt_swept_cell cell;
};

static const struct mt_field row_fields[] = {
    MT_POSITIVE(struct row, cell.run, "run", NULL, NULL),
    MT_KNOWN(struct row, cell.rank, "rank", NULL, "of many ranks, the one that reserves most"),
    MT_TEXT(struct row, cell.state, "state", NULL, NULL),
    MT_MEMBERS(struct row, axes, "the values by name, as texts"),
    MT_SOME_BYTES(struct row, cell.allocated_bytes, "allocated_bytes", "peak allocated", NULL),
    MT_SOME_BYTES(struct row, cell.reserved_bytes, "reserved_bytes", "reserved", NULL),
    MT_OWNED(struct row, cell.told, "told", NULL, "the state in words"),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct row, row_fields);

/* The columns of a table after the values. */
static const struct mt_field result_fields[] = {
    MT_SOME_BYTES(struct row, cell.allocated_bytes, "allocated_bytes", "peak allocated", NULL),
    MT_SOME_BYTES(struct row, cell.reserved_bytes, "reserved_bytes", "reserved", NULL),
    MT_POSITIVE(struct row, cell.run, "run", "run", NULL),
    MT_OWNED(struct row, cell.told, "state", "state", NULL),
};
static const struct mt_field rank_field = MT_KNOWN(struct row, cell.rank, "rank", "of rank", NULL);
enum { RESULT_COUNT = sizeof result_fields / sizeof result_fields[0] };

struct answer {
    const char *trace, *device;
    size_t done, oom, failed, killed;
    struct row *rows;
    size_t count;
};

static const struct mt_field answer_fields[] = {
    MT_TEXT(struct answer, trace, "trace", NULL, NULL),
    MT_TEXT(struct answer, device, "device", NULL, NULL),
    MT_COUNT(struct answer, done, "done", NULL, NULL),
    MT_COUNT(struct answer, oom, "oom", NULL, NULL),
    MT_COUNT(struct answer, failed, "failed", NULL, NULL),
    MT_COUNT(struct answer, killed, "killed", NULL, "from outside, so nothing is known of them"),
    MT_ROWS(struct answer, rows, count, "rows", &row_type, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct answer, answer_fields);

static void make_row(const struct mt_program_sweep_found *found, size_t number, struct row *out)
{
    const struct mt_vary_grid *grid = &found->grid;
    *out = (struct row){.axes = json_object(), .cell = found->cells[number]};
    for (size_t i = 0; i < grid->count; i++) {
        out->values[i] = mt_vary_grid_value(grid, number, i);
        json_object_set_new(out->axes, grid->lists[i].text, mt_json_text(out->values[i]));
    }
}

static void count_row(const struct row *row, struct answer *answer)
{
    answer->done += strcmp(row->cell.state, mt_run_state_name(MT_RUN_DONE)) == 0;
    answer->oom += strcmp(row->cell.state, mt_run_state_name(MT_RUN_OOM)) == 0;
    answer->failed += strcmp(row->cell.state, mt_run_state_name(MT_RUN_FAILED)) == 0;
    answer->killed += strcmp(row->cell.state, mt_run_state_name(MT_RUN_INTERRUPTED)) == 0;
}

static bool has_ranks(const struct answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        if (answer->rows[i].cell.rank >= 0)
            return true;
    return false;
}

/* Creates the columns: the values, then the results. */
static void make_columns(const struct mt_vary_grid *grid, const struct answer *answer, struct mt_field *out)
{
    for (size_t i = 0; i < grid->count; i++)
        *out++ = (struct mt_field){.kind = MT_FIELD_DIGITS,
                                   .offset = offsetof(struct row, values) + i * sizeof(const char *),
                                   .name = grid->lists[i].text,
                                   .heading = grid->lists[i].text};
    if (has_ranks(answer))
        *out++ = rank_field;
    memcpy(out, result_fields, sizeof result_fields);
    out[RESULT_COUNT] = (struct mt_field)MT_FIELDS_END;
}

static mt_status print(const struct mt_vary_grid *grid, const struct answer *answer, mt_report_form form)
{
    struct mt_field columns[MT_MOST_VARIED + 1 + RESULT_COUNT + 1];
    make_columns(grid, answer, columns);
    const struct mt_row_type type = MT_ROW_TYPE(struct row, columns);
    if (form == MT_REPORT_JSON) {
        mt_answer_print_json("sweep_program", &answer_type, answer);
        return MT_OK;
    }
    if (form == MT_REPORT_CSV)
        return mt_rows_print_csv(&type, answer->rows, answer->count);
    if (form == MT_REPORT_MARKDOWN)
        return mt_rows_print_markdown("Sweep", "cells", answer->trace, &type, answer->rows, answer->count);
    mt_rows_print(&type, NULL, "run reserved_bytes", answer->rows, answer->count);
    mt_say("\n%zu cell%s on %s, run dry: %zu done, %zu out of memory, %zu failed", answer->count,
           answer->count == 1 ? "" : "s", answer->device, answer->done, answer->oom, answer->failed);
    return MT_OK;
}

static void note_cell(void *context, const struct mt_vary_grid *grid, size_t cell, const struct mt_swept_cell *result,
                      size_t number)
{
    struct mt_text title = {0};
    (void)context;
    for (size_t i = 0; i < grid->count; i++)
        mt_text_add(&title, "%s%s %s", i > 0 ? ", " : "", grid->lists[i].text, mt_vary_grid_value(grid, cell, i));
    mt_text_add(&title, ": ");
    if (result->reserved_bytes > 0)
        mt_text_add(&title, "%s reserved, ", MT_SIZE(result->reserved_bytes));
    mt_text_add_visible(&title, mt_text_get(&result->told));
    mt_note("%zu of %zu: %s", number, grid->cell_count, title.data);
    mt_text_release(&title);
}

/* Prints the cells that were run. Sets the counts in *out; its other members are temporary. */
static mt_status print_cells(const struct mt_program_sweep *sweep, const struct mt_program_sweep_found *found,
                             mt_report_form form, struct answer *out)
{
    struct answer answer = {.trace = sweep->trace,
                            .device = sweep->device,
                            .rows = mt_host_alloc(found->count * sizeof *answer.rows),
                            .count = found->count};
    for (size_t i = 0; i < found->count; i++) {
        make_row(found, i, &answer.rows[i]);
        count_row(&answer.rows[i], &answer);
    }
    mt_status status = print(&found->grid, &answer, form);
    for (size_t i = 0; i < found->count; i++)
        json_decref(answer.rows[i].axes);
    free(answer.rows);
    *out = answer;
    return status;
}

mt_status mt_program_sweep(const struct mt_program_sweep *sweep, mt_report_form form)
{
    static const struct mt_program_sweep_observer observer = {NULL, note_cell};
    struct mt_program_sweep_found found;
    struct answer counts = {0};
    mt_status status = mt_program_sweep_run(sweep, &observer, &found);
    if (status == MT_USAGE)
        status = mt_fail_hint(mt_dry_hint(status, sweep->program), "see --vary NAME=VALUE,...");
    mt_status printed = MT_OK;
    if (found.count > 0)
        printed = print_cells(sweep, &found, form, &counts);
    if (status == MT_OK && printed == MT_OK && counts.failed > 0)
        status = mt_fail(MT_FAILED, "%zu of %zu cells failed", counts.failed, found.grid.cell_count);
    else if (status == MT_OK && printed == MT_OK && counts.killed > 0)
        status = mt_fail(MT_FAILED, "%zu of %zu cells were killed. If host memory was full, try --jobs 1",
                         counts.killed, found.grid.cell_count);
    mt_program_sweep_release(&found);
    return mt_status_keep(status, printed);
}
