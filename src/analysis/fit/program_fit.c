#include "analysis/fit/program_fit.h"

#include "analysis/fit/dry_peak.h"
#include "analysis/fit/replayed_fit.h"
#include "base/job_folder.h"
#include "base/memory.h"
#include "producers/program/dry_tasks.h"

#include <stdlib.h>
#include <string.h>

/* The dry runs of a program. */
struct trials {
    const struct mt_dry_options *program;
    const struct mt_fit_device *device;
    const struct mt_program_fit_observer *observer;
    struct mt_program_fit *found;
    struct mt_python_server server; /* of all trials */
    char roomy[MT_DEVICE_NAME];     /* the same card with MT_ROOMY_BYTES */
    bool lacks_bf16;                /* the card emulates it, slowly */
};

/* ---- a trial ---- */

static bool is_plain(const struct mt_dry_trial *trial)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (trial->changes.has[change])
            return false;
    return true;
}

/* Returns a process's answer about a change, preferably from a process that made it; NULL if there is no answer. */
static const struct mt_record_answer *find_change(const struct mt_program_outcome *outcome, const char *name)
{
    const struct mt_record_answer *found = NULL;
    const size_t length = strlen(name);
    for (size_t i = 0; i < outcome->count; i++) {
        const struct mt_record_answer *answer = &outcome->answers[i];
        if (answer->kind == MT_RECORD_CHANGE && strncmp(answer->text, name, length) == 0 &&
            answer->text[length] == ':' && (found == NULL || answer->number != 0))
            found = answer;
    }
    return found;
}

/* Reads which changes were made. If one was not made, the trial counts as refused. */
static void take_changes(const struct mt_program_outcome *outcome, struct mt_dry_trial *trial)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++) {
        if (!trial->changes.has[change])
            continue;
        const char *name = mt_dry_change_name(change);
        const struct mt_record_answer *answer = find_change(outcome, name);
        if (answer == NULL || answer->number == 0)
            trial->outcome = MT_TRIAL_REFUSED;
        if (trial->words.length > 0)
            mt_text_add(&trial->words, "; ");
        mt_text_add(&trial->words, "%s",
                    answer != NULL ? answer->text + strlen(name) + strlen(": ")
                                   : "the program ended before it was made");
    }
}

/* Reads for which changes the unchanged program has a place. */
static void take_places(const struct mt_program_outcome *outcome, struct mt_dry_trial *trial)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++) {
        const struct mt_record_answer *answer = find_change(outcome, mt_dry_change_name(change));
        trial->places.has[change] = answer != NULL && answer->number != 0;
    }
}

/* Reads how a program failed, or which signal killed it. */
static void take_failure(const struct mt_program_outcome *outcome, struct mt_dry_trial *trial)
{
    const int signal = mt_program_outcome_killed_by(outcome);
    trial->outcome = signal != 0 ? MT_TRIAL_KILLED : MT_TRIAL_FAILED;
    if (signal != 0) {
        mt_text_add(&trial->words, "the dry run was killed by signal %d (not counted)", signal);
        return;
    }
    mt_text_add(&trial->words, "the program fails %s: ", is_plain(trial) ? "as it is" : "with it");
    mt_program_outcome_add_failure(outcome, &trial->words);
}

/* Replays changes of the run of one rank on the device. Finds none for a run with too many events. */
static mt_status replay_run(const struct mt_record_answer *answer, const struct mt_dry_peak *found,
                            struct mt_program_changes *out)
{
    const uint64_t capacity_bytes = found->counted.memory_bytes - found->counted.reserve_bytes;
    bool ignored;
    struct mt_question question = {0};
    struct mt_advice_material material = {0};
    MT_TRY(mt_trace_open(answer->text, &question.trace));
    mt_status status = mt_trace_find_numbered(question.trace, answer->number, &question.run);
    if (status == MT_OK && question.run->rank == found->rank && out->items == NULL) {
        status = mt_advice_material_load(&question, NULL, &material);
        MT_THEN(status, mt_replayed_changes_find(&material.input, capacity_bytes, out, &ignored));
        status = status == MT_USAGE ? MT_OK : status;
    }
    mt_advice_material_release(&material);
    mt_trace_close(question.trace);
    return status;
}

static mt_status find_replayed(const struct mt_program_outcome *outcome, const struct mt_dry_peak *found,
                               struct mt_program_changes *out)
{
    for (size_t i = 0; i < outcome->count; i++)
        if (outcome->answers[i].kind == MT_RECORD_RUN)
            MT_TRY(replay_run(&outcome->answers[i], found, out));
    return MT_OK;
}

static mt_status take_outcome(struct trials *trials, const struct mt_program_outcome *outcome,
                              struct mt_dry_trial *trial)
{
    struct mt_dry_peak found;
    if (mt_program_outcome_is_interrupted(outcome))
        return mt_fail(MT_FAILED, "interrupted");
    if (outcome->code != 0) {
        take_failure(outcome, trial);
        return MT_OK;
    }
    MT_TRY(mt_dry_peak_find(outcome, trials->device, &found));
    trial->outcome = MT_TRIAL_RAN;
    trial->peak = found.peak;
    trial->rank = found.rank;
    trial->sharers = found.sharers;
    take_changes(outcome, trial);
    if (!is_plain(trial))
        return MT_OK;
    take_places(outcome, trial);
    trials->found->counted = found.counted;
    if (found.sharers > 1) /* a replay covers only one process */
        return MT_OK;
    return find_replayed(outcome, &found, &trials->found->replayed);
}

/* ---- parallel trials ---- */

/* A trial with the folder of its trace. Owns its texts. */
struct attempt {
    struct mt_dry_trial *trial;
    struct mt_job_folder folder;
    struct mt_text trace, changes;
};

/* Trials that run in parallel. tasks[i] belongs to attempts[i]. */
struct batch {
    struct trials *trials;
    struct mt_dry_task *tasks;
    struct attempt *attempts;
    size_t count, ended;
    struct mt_error error; /* the first failure */
};

/* Reads the outcome of a program, and calls the observer. */
static mt_status take_task(struct batch *batch, const struct mt_dry_task *task, struct mt_dry_trial *trial)
{
    const struct mt_program_fit_observer *observer = batch->trials->observer;
    MT_TRY(task->status);
    if (is_plain(trial) && observer != NULL)
        observer->plain_ran(observer->context, &task->outcome);
    if (is_plain(trial) && task->outcome.code != 0)
        mt_text_add(&batch->trials->found->said, "%s", mt_text_get(&task->outcome.said));
    MT_TRY(take_outcome(batch->trials, &task->outcome, trial));
    if (observer != NULL)
        observer->ended(observer->context, trial, ++batch->ended, batch->count);
    return MT_OK;
}

/* Called when a trial has ended. After a failure, or if the unchanged program fails, the other trials are useless. */
static void end_trial(void *context, struct mt_dry_task *task)
{
    struct batch *batch = context;
    struct attempt *attempt = &batch->attempts[task - batch->tasks];
    mt_status status = take_task(batch, task, attempt->trial);
    if (status != MT_OK && batch->error.status == MT_OK)
        batch->error = mt_error_save(status);
    task->ends_all = status != MT_OK || (is_plain(attempt->trial) && attempt->trial->outcome != MT_TRIAL_RAN);
    mt_job_folder_remove(&attempt->folder); /* the trace of a trial may be large */
}

/* Adds a trial to the batch. */
static mt_status add_trial(struct batch *batch, struct mt_dry_trial *trial)
{
    struct trials *trials = batch->trials;
    struct attempt *attempt = &batch->attempts[batch->count];
    struct mt_dry_task *task = &batch->tasks[batch->count++];
    attempt->trial = trial;
    MT_TRY(mt_job_folder_make(&attempt->folder));
    mt_text_add(&attempt->trace, "%s/trial.db", attempt->folder.path);
    if (is_plain(trial))
        mt_dry_changes_add_places(&attempt->changes);
    else
        mt_dry_changes_add_names(&trial->changes, &attempt->changes);
    task->child = (struct mt_dry_child){.options = trials->program,
                                        .device = trials->roomy,
                                        .trace = attempt->trace.data,
                                        .changes = attempt->changes.data,
                                        .server = &trials->server};
    task->words = trials->program->words;
    task->output = MT_KEEP_OUTPUT;
    return MT_OK;
}

static mt_status run_batch(struct batch *batch)
{
    const struct mt_program_fit_observer *observer = batch->trials->observer;
    if (observer != NULL && batch->count > 1)
        observer->begins(observer->context, batch->count);
    mt_status status = mt_dry_tasks_run(batch->tasks, batch->count, batch->trials->program->jobs, end_trial, batch);
    return mt_error_restore(&batch->error, status);
}

static void release_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        mt_program_outcome_release(&batch->tasks[i].outcome);
        mt_job_folder_remove(&batch->attempts[i].folder);
        mt_text_release(&batch->attempts[i].trace);
        mt_text_release(&batch->attempts[i].changes);
    }
    free(batch->tasks);
    free(batch->attempts);
}

/* True if the card does not support what the trial's changes need; then the trial is refused. */
static bool is_refused(const struct trials *trials, struct mt_dry_trial *trial)
{
    if (!trials->lacks_bf16 || (!trial->changes.has[MT_DRY_AUTOCAST] && !trial->changes.has[MT_DRY_BF16_WEIGHTS]))
        return false;
    trial->outcome = MT_TRIAL_REFUSED;
    mt_text_add(&trial->words, "%s has no units for bf16, which would be emulated there, and slow",
                trials->device->name);
    return true;
}

static mt_status make_trials(void *context, struct mt_dry_trial *const *trials, size_t count)
{
    struct batch batch = {.trials = context,
                          .tasks = mt_host_alloc(count * sizeof *batch.tasks),
                          .attempts = mt_host_alloc(count * sizeof *batch.attempts)};
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        if (!is_refused(context, trials[i]))
            status = add_trial(&batch, trials[i]);
    MT_THEN(status, run_batch(&batch));
    release_batch(&batch);
    return status;
}

mt_status mt_program_fit_find(const struct mt_dry_options *program, const struct mt_fit_device *device,
                              const struct mt_program_fit_observer *observer, struct mt_program_fit *out)
{
    struct trials trials = {.program = program, .device = device, .observer = observer, .found = out};
    struct mt_card card;
    *out = (struct mt_program_fit){.counted = *device};
    MT_TRY(mt_device_find_card(device->name, &card));
    trials.lacks_bf16 = card.bf16_matrix_rate == 0;
    MT_TRY(mt_fit_device_spell_roomy(device, trials.roomy));
    MT_TRY(mt_dry_options_check(program, trials.roomy));
    mt_status status = mt_dry_fit_find(make_trials, &trials, &out->fit);
    mt_python_server_end(&trials.server);
    return status;
}

void mt_program_fit_release(struct mt_program_fit *found)
{
    mt_dry_fit_release(&found->fit);
    mt_program_changes_release(&found->replayed);
    mt_text_release(&found->said);
}
