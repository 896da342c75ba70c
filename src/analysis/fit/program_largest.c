#include "analysis/fit/program_largest.h"

#include "base/clock.h"
#include "base/job_folder.h"
#include "base/memory.h"
#include "producers/program/dry_tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { VALUE_TEXT = 24 };

/* A search in progress. */
struct work {
    const struct mt_program_largest *question;
    const struct mt_largest_observer *observer;
    struct mt_largest_found *found;
    struct mt_python_server server; /* of all trials */
    char roomy[MT_DEVICE_NAME];     /* the same card with MT_ROOMY_BYTES */
    struct attempt *attempts;       /* of the round */
    struct mt_dry_task *tasks;
    size_t count;
    struct mt_error error; /* the first failure of the round */
};

/* A dry run of the round. Owns its texts. */
struct attempt {
    size_t cell;
    int64_t index;
    struct mt_job_folder folder;
    struct mt_text trace;
    char **words;
};

/* ---- a trial ---- */

static uint64_t capacity_of(const struct mt_largest_trial *trial)
{
    return trial->peak.counted.memory_bytes - trial->peak.counted.reserve_bytes;
}

int64_t mt_largest_trial_room_bytes(const struct mt_largest_trial *trial)
{
    return (int64_t)capacity_of(trial) - (int64_t)trial->peak.peak.reserved_bytes;
}

const char *mt_largest_trial_state(const struct mt_largest_trial *trial)
{
    static const char *const states[] = {
        [MT_SEARCH_FITS] = "fits", [MT_SEARCH_SHORT] = "short", [MT_SEARCH_FAILED] = "failed"};
    return trial->is_killed ? "killed" : states[trial->state];
}

static void take_failure(const struct mt_program_outcome *outcome, struct mt_largest_trial *trial)
{
    const int signal = mt_program_outcome_killed_by(outcome);
    trial->is_killed = signal != 0;
    if (trial->is_killed)
        mt_text_add(&trial->words, "was killed by signal %d (not counted)", signal);
    else
        mt_program_outcome_add_failure(outcome, &trial->words);
}

/* Sets a trial's result from the outcome of its program. */
static mt_status judge(const struct mt_program_outcome *outcome, const struct mt_fit_device *device,
                       struct mt_largest_trial *trial)
{
    bool is_out = false;
    if (mt_program_outcome_is_interrupted(outcome))
        return mt_fail(MT_FAILED, "interrupted");
    if (outcome->code == 0) {
        MT_TRY(mt_dry_peak_find(outcome, device, &trial->peak));
        trial->has_peak = true;
        trial->state = trial->peak.peak.fits ? MT_SEARCH_FITS : MT_SEARCH_SHORT;
        return MT_OK;
    }
    MT_TRY(mt_dry_outcome_is_out(outcome, &is_out));
    trial->state = is_out ? MT_SEARCH_SHORT : MT_SEARCH_FAILED;
    if (is_out)
        mt_text_add(&trial->words, "needs more than %s", MT_SIZE(MT_ROOMY_BYTES));
    else
        take_failure(outcome, trial);
    return MT_OK;
}

/* Adds a trial to its search. */
static void add_point(struct mt_largest_found *found, const struct mt_largest_trial *trial)
{
    struct mt_search_point point = {.index = trial->index, .state = trial->state, .has_room = trial->has_peak};
    if (point.has_room) {
        point.reserved_room_bytes = (double)mt_largest_trial_room_bytes(trial);
        point.allocated_room_bytes = (double)capacity_of(trial) - (double)trial->peak.peak.allocated_bytes;
    }
    mt_largest_search_add(&found->searches[trial->cell], &point);
}

static mt_status take_task(struct work *work, const struct attempt *attempt, const struct mt_dry_task *task)
{
    struct mt_largest_found *found = work->found;
    MT_TRY(task->status);
    struct mt_largest_trial judged = {.cell = attempt->cell, .index = attempt->index, .peak.rank = -1};
    MT_TRY(judge(&task->outcome, work->question->device, &judged));
    struct mt_largest_trial *trial = MT_HOST_ADD(found->trials, found->count);
    *trial = judged;
    if (trial->state == MT_SEARCH_FAILED && !trial->is_killed && found->said.length == 0)
        mt_text_add(&found->said, "%s", mt_text_get(&task->outcome.said));
    add_point(found, trial);
    if (work->observer != NULL)
        work->observer->ended(work->observer->context, found, trial, &task->outcome);
    return MT_OK;
}

/* Called when a trial has ended. After a failure, the other trials are useless. */
static void end_attempt(void *context, struct mt_dry_task *task)
{
    struct work *work = context;
    struct attempt *attempt = &work->attempts[task - work->tasks];
    mt_status status = take_task(work, attempt, task);
    if (status != MT_OK && work->error.status == MT_OK)
        work->error = mt_error_save(status);
    task->ends_all = status != MT_OK;
    mt_job_folder_remove(&attempt->folder); /* the trace of a trial may be large */
}

/* ---- a round ---- */

/* Returns the program's arguments for a trial. The caller frees each string and the array. */
static char **words_with(struct work *work, size_t cell, int64_t index)
{
    const struct mt_vary_grid *grid = &work->found->grid;
    char **place = &grid->lists[grid->count - 1].values[0], *kept = *place, value[VALUE_TEXT];
    snprintf(value, sizeof value, "%" PRId64, mt_value_range_at(&work->found->range, index));
    *place = value;
    char **words = mt_vary_grid_words(grid, cell, work->question->program->words);
    *place = kept;
    return words;
}

static mt_status add_attempt(struct work *work, size_t cell, int64_t index)
{
    struct attempt *attempt = MT_HOST_ADD(work->attempts, work->count);
    *attempt = (struct attempt){.cell = cell, .index = index};
    MT_TRY(mt_job_folder_make(&attempt->folder));
    mt_text_add(&attempt->trace, "%s/trial.db", attempt->folder.path);
    attempt->words = words_with(work, cell, index);
    return MT_OK;
}

static mt_status add_attempts(struct work *work)
{
    for (size_t cell = 0; cell < work->found->grid.cell_count; cell++) {
        int64_t indices[MT_SEARCH_ROUND];
        const size_t count = mt_largest_search_next(&work->found->searches[cell], indices);
        for (size_t i = 0; i < count; i++)
            MT_TRY(add_attempt(work, cell, indices[i]));
    }
    return MT_OK;
}

static mt_status run_attempts(struct work *work)
{
    work->tasks = mt_host_alloc((work->count + 1) * sizeof *work->tasks);
    for (size_t i = 0; i < work->count; i++)
        work->tasks[i] = (struct mt_dry_task){
            .child = {.options = work->question->program, .device = work->roomy, .trace = work->attempts[i].trace.data},
            .words = work->attempts[i].words,
            .output = MT_KEEP_OUTPUT};
    mt_status status = mt_dry_tasks_run(work->tasks, work->count, work->question->program->jobs, end_attempt, work);
    return mt_error_restore(&work->error, status);
}

static void release_attempts(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        struct attempt *attempt = &work->attempts[i];
        if (work->tasks != NULL)
            mt_program_outcome_release(&work->tasks[i].outcome);
        for (size_t word = 0; attempt->words != NULL && attempt->words[word] != NULL; word++)
            free(attempt->words[word]);
        free(attempt->words);
        mt_text_release(&attempt->trace);
        mt_job_folder_remove(&attempt->folder);
    }
    free(work->attempts);
    free(work->tasks);
    work->attempts = NULL;
    work->tasks = NULL;
    work->count = 0;
}

/* Makes the next trials of all searches. Sets *out_goes_on to false if no trials are left. */
static mt_status run_round(struct work *work, bool *out_goes_on)
{
    mt_status status = add_attempts(work);
    *out_goes_on = work->count > 0;
    if (work->count > 0)
        MT_THEN(status, run_attempts(work));
    release_attempts(work);
    return status;
}

/* ---- the search ---- */

/* Creates the grid of the lists and the searched argument, which has its smallest value. */
static mt_status make_grid(const struct mt_program_largest *question, struct mt_largest_found *found)
{
    const char **lists = mt_host_alloc((question->vary_count + 1) * sizeof *lists);
    struct mt_text searched = {0};
    mt_text_add(&searched, "%s=%" PRId64, found->range.name, mt_value_range_at(&found->range, 0));
    for (size_t i = 0; i < question->vary_count; i++)
        lists[i] = question->vary[i];
    lists[question->vary_count] = searched.data;
    mt_status status = mt_vary_grid_create(lists, question->vary_count + 1, question->program->words, &found->grid);
    mt_text_release(&searched);
    free(lists);
    return status;
}

static mt_status prepare(struct work *work)
{
    struct mt_largest_found *found = work->found;
    MT_TRY(mt_value_range_parse(work->question->values, &found->range));
    MT_TRY(make_grid(work->question, found));
    MT_TRY(mt_fit_device_spell_roomy(work->question->device, work->roomy));
    MT_TRY(mt_dry_options_check(work->question->program, work->roomy));
    found->searches = mt_host_alloc(found->grid.cell_count * sizeof *found->searches);
    for (size_t i = 0; i < found->grid.cell_count; i++)
        found->searches[i].range = &found->range;
    return MT_OK;
}

mt_status mt_program_largest_find(const struct mt_program_largest *question, const struct mt_largest_observer *observer,
                                  struct mt_largest_found *out)
{
    struct work work = {.question = question, .observer = observer, .found = out};
    const uint64_t begin_ns = mt_clock_ns();
    bool goes_on = true;
    *out = (struct mt_largest_found){0};
    mt_status status = prepare(&work);
    while (status == MT_OK && goes_on)
        status = run_round(&work, &goes_on);
    mt_python_server_end(&work.server);
    out->elapsed_ns = mt_clock_since_ns(begin_ns);
    return status;
}

void mt_program_largest_release(struct mt_largest_found *found)
{
    for (size_t i = 0; found->searches != NULL && i < found->grid.cell_count; i++)
        mt_largest_search_release(&found->searches[i]);
    free(found->searches);
    for (size_t i = 0; i < found->count; i++)
        mt_text_release(&found->trials[i].words);
    free(found->trials);
    mt_vary_grid_release(&found->grid);
    mt_value_range_release(&found->range);
    mt_text_release(&found->said);
}

const struct mt_largest_trial *mt_program_largest_trial(const struct mt_largest_found *found, size_t cell,
                                                        const struct mt_search_point *point)
{
    for (size_t i = 0; i < found->count && point != NULL; i++)
        if (found->trials[i].cell == cell && found->trials[i].index == point->index)
            return &found->trials[i];
    return NULL;
}

bool mt_program_largest_any_ran(const struct mt_largest_found *found)
{
    for (size_t i = 0; i < found->count; i++)
        if (found->trials[i].state != MT_SEARCH_FAILED)
            return true;
    return false;
}
