#include "cli/run/program_sweep.h"

#include "base/memory.h"
#include "cli/output/question.h"
#include "cli/output/report_form.h"
#include "cli/run/vary_grid.h"

#include <stdlib.h>
#include <string.h>

enum { INTERRUPTED = 128 + 2 }; /* as a shell has SIGINT */

/* A cell and its run. Of several processes, the run is the first one's, the peaks are the largest, and the rank is the one that
 * reserves most. */
struct row {
    const char *values[MT_MOST_VARIED];
    json_t *axes;
    const char *state;
    int64_t run;  /* 0: none */
    int64_t rank; /* -1: it is no rank */
    uint64_t allocated_bytes, reserved_bytes;
    struct mt_text told; /* the state in words */
};

static const struct mt_field row_fields[] = {
    MT_POSITIVE(struct row, run, "run", NULL, NULL),
    MT_KNOWN(struct row, rank, "rank", NULL, "of many ranks, the one that reserves most"),
    MT_TEXT(struct row, state, "state", NULL, NULL),
    MT_MEMBERS(struct row, axes, "the values by name, as texts"),
    MT_SOME_BYTES(struct row, allocated_bytes, "allocated_bytes", "peak allocated", NULL),
    MT_SOME_BYTES(struct row, reserved_bytes, "reserved_bytes", "reserved", NULL),
    MT_OWNED(struct row, told, "told", NULL, "the state in words"),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct row, row_fields);

/* What a table has behind the values. */
static const struct mt_field result_fields[] = {
    MT_SOME_BYTES(struct row, allocated_bytes, "allocated_bytes", "peak allocated", NULL),
    MT_SOME_BYTES(struct row, reserved_bytes, "reserved_bytes", "reserved", NULL),
    MT_POSITIVE(struct row, run, "run", "run", NULL),
    MT_OWNED(struct row, told, "state", "state", NULL),
};
static const struct mt_field rank_field = MT_KNOWN(struct row, rank, "rank", "of rank", NULL);
enum { RESULT_COUNT = sizeof result_fields / sizeof result_fields[0] };

struct answer {
    const char *trace, *device;
    size_t done, oom, failed;
    struct row *rows;
    size_t count;
};

static const struct mt_field answer_fields[] = {
    MT_TEXT(struct answer, trace, "trace", NULL, NULL),
    MT_TEXT(struct answer, device, "device", NULL, NULL),
    MT_COUNT(struct answer, done, "done", NULL, NULL),
    MT_COUNT(struct answer, oom, "oom", NULL, NULL),
    MT_COUNT(struct answer, failed, "failed", NULL, NULL),
    MT_ROWS(struct answer, rows, count, "rows", &row_type, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct answer, answer_fields);

/* ---- a cell ---- */

static void add_oom(const struct mt_steps_row *steps, struct mt_text *out)
{
    char asked[MT_BYTES_TEXT];
    mt_text_add(out, "out of memory");
    if (steps->oom_bytes >= 0)
        mt_text_add(out, ": %s asked for %s in %s", mt_format_bytes((uint64_t)steps->oom_bytes, asked),
                    steps->oom_category, steps->oom_phase);
}

static mt_status take_run(struct mt_trace *trace, int64_t number, struct row *row)
{
    const struct mt_run *run;
    struct mt_steps_row steps;
    uint64_t allocated, reserved;
    MT_TRY(mt_trace_find_numbered(trace, number, &run));
    MT_TRY(mt_trace_steps(trace, run, &steps));
    MT_TRY(mt_trace_peak_bytes(trace, run, MT_MEASURE_ALLOCATED, &allocated));
    MT_TRY(mt_trace_peak_bytes(trace, run, MT_MEASURE_RESERVED, &reserved));
    if (allocated > row->allocated_bytes)
        row->allocated_bytes = allocated;
    if (reserved > row->reserved_bytes) {
        row->reserved_bytes = reserved;
        row->rank = run->rank;
    }
    if (row->run == 0)
        row->run = number;
    if (!mt_run_is(run, MT_RUN_OOM) || row->told.length > 0)
        return MT_OK;
    row->state = mt_run_state_name(MT_RUN_OOM);
    add_oom(&steps, &row->told);
    return MT_OK;
}

/* Takes what the processes answered. A program that failed did so out of memory, or otherwise. */
static mt_status take_outcome(const struct mt_dry_outcome *outcome, struct row *row)
{
    if (outcome->code == INTERRUPTED)
        return mt_fail(MT_FAILED, "interrupted");
    for (size_t i = 0; i < outcome->count; i++) {
        struct mt_trace *trace;
        if (outcome->answers[i].kind != MT_RECORD_RUN)
            continue;
        MT_TRY(mt_trace_open(outcome->answers[i].text, &trace));
        mt_status status = take_run(trace, outcome->answers[i].number, row);
        mt_trace_close(trace);
        MT_TRY(status);
    }
    if (row->told.length > 0 && outcome->code != 0)
        return MT_OK;
    row->told.length = 0; /* a program that caught running out of memory is done */
    row->state = mt_run_state_name(outcome->code == 0 ? MT_RUN_DONE : MT_RUN_FAILED);
    mt_text_add(&row->told, outcome->code == 0 ? "done" : "failed: ");
    if (outcome->code != 0)
        mt_dry_outcome_add_failure(outcome, &row->told);
    return MT_OK;
}

/* Adds the values of a cell, with their names or without. */
static void add_values(const struct mt_vary_grid *grid, const struct row *row, const char *between, bool named,
                       struct mt_text *out)
{
    for (size_t i = 0; i < grid->count; i++) {
        mt_text_add(out, "%s", i > 0 ? between : "");
        if (named)
            mt_text_add(out, "%s ", grid->lists[i].text);
        mt_text_add(out, "%s", row->values[i]);
    }
}

static mt_status run_cell(const struct mt_program_sweep *sweep, const struct mt_vary_grid *grid, size_t cell,
                          struct row *row)
{
    struct mt_text title = {0}, name = {0};
    struct mt_dry_outcome outcome;
    row->axes = json_object();
    for (size_t i = 0; i < grid->count; i++) {
        row->values[i] = mt_vary_grid_value(grid, cell, i);
        json_object_set_new(row->axes, grid->lists[i].text, mt_json_text(row->values[i]));
    }
    add_values(grid, row, ", ", true, &title);
    mt_note("cell %zu of %zu: %s", cell + 1, grid->cell_count, mt_text_get(&title));
    if (sweep->name != NULL)
        mt_text_add(&name, "%s-", sweep->name);
    add_values(grid, row, "-", false, &name);
    const struct mt_dry_child child = {.options = sweep->program,
                                       .device = sweep->device,
                                       .trace = sweep->trace,
                                       .name = sweep->name != NULL ? name.data : NULL,
                                       .is_quiet = true};
    char **words = mt_vary_grid_words(grid, cell, sweep->program->words);
    mt_status status = mt_dry_child_run(&child, words, &outcome);
    if (status == MT_OK)
        status = take_outcome(&outcome, row);
    for (size_t i = 0; words[i] != NULL; i++)
        free(words[i]);
    free(words);
    mt_dry_outcome_release(&outcome);
    mt_text_release(&title);
    mt_text_release(&name);
    return status;
}

/* ---- the table ---- */

static void count_row(const struct row *row, struct answer *answer)
{
    answer->done += strcmp(row->state, mt_run_state_name(MT_RUN_DONE)) == 0;
    answer->oom += strcmp(row->state, mt_run_state_name(MT_RUN_OOM)) == 0;
    answer->failed += strcmp(row->state, mt_run_state_name(MT_RUN_FAILED)) == 0;
}

static bool has_ranks(const struct answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        if (answer->rows[i].rank >= 0)
            return true;
    return false;
}

/* Makes the columns: the values, then the results. */
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

static void release_row(struct row *row)
{
    json_decref(row->axes);
    mt_text_release(&row->told);
}

static void release(struct answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        release_row(&answer->rows[i]);
    free(answer->rows);
}

/* Runs the cells, and prints those that were run, also if the sweep ends early. */
static mt_status sweep_grid(const struct mt_program_sweep *sweep, const struct mt_vary_grid *grid, mt_report_form form)
{
    struct answer answer = {
        .trace = sweep->trace, .device = sweep->device, .rows = mt_host_alloc(grid->cell_count * sizeof *answer.rows)};
    mt_status status = MT_OK;
    for (size_t cell = 0; cell < grid->cell_count && status == MT_OK; cell++) {
        answer.rows[cell] = (struct row){.rank = -1};
        status = run_cell(sweep, grid, cell, &answer.rows[cell]);
        if (status == MT_OK)
            count_row(&answer.rows[answer.count++], &answer);
        else
            release_row(&answer.rows[cell]);
    }
    mt_status printed = answer.count > 0 ? print(grid, &answer, form) : MT_OK;
    if (status == MT_OK && printed == MT_OK && answer.failed > 0)
        status = mt_fail(MT_FAILED, "%zu of %zu cells failed", answer.failed, grid->cell_count);
    release(&answer);
    return mt_status_keep(status, printed);
}

mt_status mt_program_sweep(const struct mt_program_sweep *sweep, mt_report_form form)
{
    struct mt_vary_grid grid;
    mt_status status = mt_vary_grid_create(sweep->vary, sweep->program->words, &grid);
    if (status == MT_OK)
        status = mt_dry_children_prepare(sweep->program, sweep->device);
    if (status == MT_OK)
        status = sweep_grid(sweep, &grid, form);
    mt_vary_grid_release(&grid);
    return status;
}
