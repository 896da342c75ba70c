#include "analysis/program_sweep.h"

#include "base/job_folder.h"
#include "base/memory.h"
#include "producers/program/dry_tasks.h"
#include "producers/program/gathered_runs.h"
#include "producers/program/program_job.h"
#include "trace/query/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (!mt_run_is(run, MT_RUN_OOM) || cell->told.length > 0)
        return MT_OK;
    cell->state = mt_run_state_name(MT_RUN_OOM);
    add_oom(&steps, &cell->told);
    return MT_OK;
}

/* Reads the results from the processes. A program that failed did so out of memory, or for another reason. */
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
    const int signal = mt_program_outcome_killed_by(outcome);
    if (signal != 0) {
        cell->told.length = 0;
        cell->state = mt_run_state_name(MT_RUN_INTERRUPTED);
        mt_text_add(&cell->told, "was killed by signal %d (not counted)", signal);
        return MT_OK;
    }
    if (cell->told.length > 0 && outcome->code != 0)
        return MT_OK;
    cell->told.length = 0; /* a program that caught an out-of-memory error is done */
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

/* ---- parallel cells ---- */

/* A cell that runs or has run, with its own trace. Owns its parts. */
struct attempt {
    struct mt_text name, trace;
    char *folder;
    char **words;
    bool has_ended;
};

/* All cells. tasks[i] and attempts[i] belong to cell i. Invariant: the runs of cells[0 .. found->count) are in the
 * trace. */
struct cells {
    const struct mt_program_sweep *sweep;
    const struct mt_program_sweep_observer *observer;
    struct mt_program_sweep_found *found;
    struct mt_program_job job; /* the common trace, and a folder for the cells' own */
    struct mt_dry_task *tasks;
    struct attempt *attempts;
    size_t ended;
    struct mt_error error; /* the first failure */
};

/* Returns the number of an outcome's first run; 0 if there is none. */
static int64_t first_run(const struct mt_program_outcome *outcome)
{
    for (size_t i = 0; i < outcome->count; i++)
        if (outcome->answers[i].kind == MT_RECORD_RUN)
            return outcome->answers[i].number;
    return 0;
}

/* Appends the runs of cells that have ended, up to the first cell that has not. */
static mt_status append_ended(struct cells *cells)
{
    struct mt_program_sweep_found *found = cells->found;
    for (; found->count < found->grid.cell_count && cells->attempts[found->count].has_ended; found->count++) {
        struct mt_program_outcome *outcome = &cells->tasks[found->count].outcome;
        MT_TRY(mt_gathered_runs_append(outcome, cells->job.path));
        found->cells[found->count].run = first_run(outcome);
        mt_job_folder_remove_inner(cells->attempts[found->count].folder);
        cells->attempts[found->count].folder = NULL;
    }
    return MT_OK;
}

static mt_status take_task(struct cells *cells, const struct mt_dry_task *task)
{
    const struct mt_program_sweep_observer *observer = cells->observer;
    const size_t number = (size_t)(task - cells->tasks);
    struct mt_swept_cell *cell = &cells->found->cells[number];
    MT_TRY(task->status);
    MT_TRY(take_outcome(&task->outcome, cell));
    cells->attempts[number].has_ended = true;
    if (observer != NULL)
        observer->ended(observer->context, &cells->found->grid, number, cell, ++cells->ended);
    return append_ended(cells);
}

static void end_cell(void *context, struct mt_dry_task *task)
{
    struct cells *cells = context;
    mt_status status = take_task(cells, task);
    task->ends_all = status != MT_OK;
    if (status != MT_OK && cells->error.status == MT_OK)
        cells->error = mt_error_save(status);
}

/* Creates the task of a cell, with a folder for its trace. The file has the same name as the common trace. */
static mt_status make_cell(struct cells *cells, size_t number)
{
    const struct mt_program_sweep *sweep = cells->sweep;
    const struct mt_vary_grid *grid = &cells->found->grid;
    struct attempt *attempt = &cells->attempts[number];
    struct mt_dry_task *task = &cells->tasks[number];
    char folder[32];
    cells->found->cells[number].rank = -1;
    snprintf(folder, sizeof folder, "cell-%zu", number);
    MT_TRY(mt_job_folder_make_inner(cells->job.folder.path, folder, &attempt->folder));
    mt_text_add(&attempt->trace, "%s%s", attempt->folder, strrchr(cells->job.path, '/'));
    if (sweep->name != NULL)
        add_name(sweep, grid, number, &attempt->name);
    attempt->words = mt_vary_grid_words(grid, number, sweep->program->words);
    task->child = (struct mt_dry_child){
        .options = sweep->program, .device = sweep->device, .trace = attempt->trace.data, .name = attempt->name.data};
    task->words = attempt->words;
    task->output = MT_KEEP_OUTPUT;
    return MT_OK;
}

static void release_cells(struct cells *cells)
{
    for (size_t i = 0; i < cells->found->grid.cell_count; i++) {
        struct attempt *attempt = &cells->attempts[i];
        for (size_t word = 0; attempt->words != NULL && attempt->words[word] != NULL; word++)
            free(attempt->words[word]);
        free(attempt->words);
        free(attempt->folder);
        mt_text_release(&attempt->name);
        mt_text_release(&attempt->trace);
        mt_program_outcome_release(&cells->tasks[i].outcome);
    }
    free(cells->tasks);
    free(cells->attempts);
    mt_program_job_end(&cells->job);
}

static mt_status run_cells(struct cells *cells)
{
    const size_t count = cells->found->grid.cell_count;
    mt_status status = mt_program_job_begin(cells->sweep->trace, &cells->job);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = make_cell(cells, i);
    MT_THEN(status, mt_dry_tasks_run(cells->tasks, count, cells->sweep->program->jobs, end_cell, cells));
    return mt_error_restore(&cells->error, status);
}

mt_status mt_program_sweep_run(const struct mt_program_sweep *sweep, const struct mt_program_sweep_observer *observer,
                               struct mt_program_sweep_found *out)
{
    *out = (struct mt_program_sweep_found){0};
    MT_TRY(mt_vary_grid_create(sweep->vary, sweep->vary_count, sweep->program->words, &out->grid));
    MT_TRY(mt_dry_options_check(sweep->program, sweep->device));
    const size_t count = out->grid.cell_count;
    out->cells = mt_host_alloc(count * sizeof *out->cells);
    struct cells cells = {.sweep = sweep,
                          .observer = observer,
                          .found = out,
                          .tasks = mt_host_alloc(count * sizeof *cells.tasks),
                          .attempts = mt_host_alloc(count * sizeof *cells.attempts)};
    mt_status status = run_cells(&cells);
    release_cells(&cells);
    return status;
}

void mt_program_sweep_release(struct mt_program_sweep_found *found)
{
    for (size_t i = 0; found->cells != NULL && i < found->grid.cell_count; i++)
        mt_text_release(&found->cells[i].told);
    free(found->cells);
    mt_vary_grid_release(&found->grid);
}
