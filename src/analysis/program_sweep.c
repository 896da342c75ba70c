#include "analysis/program_sweep.h"

#include "base/memory.h"
#include "trace/query/trace.h"

#include <stdlib.h>

static void add_oom(const struct mt_steps_row *steps, struct mt_text *out)
{
    char asked[MT_BYTES_TEXT];
    mt_text_add(out, "out of memory");
    if (steps->oom_bytes >= 0)
        mt_text_add(out, ": %s asked for %s in %s", mt_format_bytes((uint64_t)steps->oom_bytes, asked),
                    steps->oom_category, steps->oom_phase);
}

static mt_status take_run(struct mt_trace *trace, int64_t number, struct mt_swept_cell *cell)
{
    const struct mt_run *run;
    struct mt_steps_row steps;
    uint64_t allocated, reserved;
    MT_TRY(mt_trace_find_numbered(trace, number, &run));
    MT_TRY(mt_trace_steps(trace, run, &steps));
    MT_TRY(mt_trace_peak_bytes(trace, run, MT_MEASURE_ALLOCATED, &allocated));
    MT_TRY(mt_trace_peak_bytes(trace, run, MT_MEASURE_RESERVED, &reserved));
    if (allocated > cell->allocated_bytes)
        cell->allocated_bytes = allocated;
    if (reserved > cell->reserved_bytes) {
        cell->reserved_bytes = reserved;
        cell->rank = run->rank;
    }
    if (cell->run == 0)
        cell->run = number;
    if (!mt_run_is(run, MT_RUN_OOM) || cell->told.length > 0)
        return MT_OK;
    cell->state = mt_run_state_name(MT_RUN_OOM);
    add_oom(&steps, &cell->told);
    return MT_OK;
}

/* Takes what the processes answered. A program that failed did so out of memory, or otherwise. */
static mt_status take_outcome(const struct mt_program_outcome *outcome, struct mt_swept_cell *cell)
{
    if (mt_program_outcome_is_interrupted(outcome))
        return mt_fail(MT_FAILED, "interrupted");
    for (size_t i = 0; i < outcome->count; i++) {
        struct mt_trace *trace;
        if (outcome->answers[i].kind != MT_RECORD_RUN)
            continue;
        MT_TRY(mt_trace_open(outcome->answers[i].text, &trace));
        mt_status status = take_run(trace, outcome->answers[i].number, cell);
        mt_trace_close(trace);
        MT_TRY(status);
    }
    if (cell->told.length > 0 && outcome->code != 0)
        return MT_OK;
    cell->told.length = 0; /* a program that caught running out of memory is done */
    cell->state = mt_run_state_name(outcome->code == 0 ? MT_RUN_DONE : MT_RUN_FAILED);
    mt_text_add(&cell->told, outcome->code == 0 ? "done" : "failed: ");
    if (outcome->code != 0)
        mt_program_outcome_add_failure(outcome, &cell->told);
    return MT_OK;
}

/* Adds the name of a cell's run: "baseline-2-128". */
static void add_name(const struct mt_program_sweep *sweep, const struct mt_vary_grid *grid, size_t number,
                     struct mt_text *out)
{
    mt_text_add(out, "%s", sweep->name);
    for (size_t i = 0; i < grid->count; i++)
        mt_text_add(out, "-%s", mt_vary_grid_value(grid, number, i));
}

static mt_status run_cell(const struct mt_program_sweep *sweep, const struct mt_vary_grid *grid, size_t number,
                          struct mt_swept_cell *cell)
{
    struct mt_text name = {0};
    struct mt_program_outcome outcome;
    if (sweep->name != NULL)
        add_name(sweep, grid, number, &name);
    const struct mt_dry_child child = {
        .options = sweep->program, .device = sweep->device, .trace = sweep->trace, .name = name.data};
    char **words = mt_vary_grid_words(grid, number, sweep->program->words);
    mt_status status = mt_dry_child_run(&child, words, MT_KEEP_OUTPUT, &outcome);
    MT_THEN(status, take_outcome(&outcome, cell));
    for (size_t i = 0; words[i] != NULL; i++)
        free(words[i]);
    free(words);
    mt_program_outcome_release(&outcome);
    mt_text_release(&name);
    return status;
}

mt_status mt_program_sweep_run(const struct mt_program_sweep *sweep, const struct mt_program_sweep_observer *observer,
                               struct mt_program_sweep_found *out)
{
    const struct mt_vary_grid *grid = &out->grid;
    *out = (struct mt_program_sweep_found){0};
    MT_TRY(mt_vary_grid_create(sweep->vary, sweep->vary_count, sweep->program->words, &out->grid));
    MT_TRY(mt_dry_options_check(sweep->program, sweep->device));
    out->cells = mt_host_alloc(grid->cell_count * sizeof *out->cells);
    for (size_t i = 0; i < grid->cell_count; i++) {
        out->cells[i].rank = -1;
        if (observer != NULL)
            observer->begins(observer->context, grid, i);
        MT_TRY(run_cell(sweep, grid, i, &out->cells[i]));
        out->count = i + 1;
    }
    return MT_OK;
}

void mt_program_sweep_release(struct mt_program_sweep_found *found)
{
    for (size_t i = 0; found->cells != NULL && i < found->grid.cell_count; i++)
        mt_text_release(&found->cells[i].told);
    free(found->cells);
    mt_vary_grid_release(&found->grid);
}
