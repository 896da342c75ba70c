#include "analysis/fit/program_fit.h"

#include "analysis/fit/replayed_fit.h"
#include "producers/program/job_folder.h"

#include <string.h>

/* More memory than a program asks for, by which a change tells all that it saves. */
#define ENOUGH_BYTES ((uint64_t)1 << 40)

/* The dry runs of a program. */
struct trials {
    const struct mt_dry_options *program;
    const struct mt_fit_device *device;
    const struct mt_program_fit_observer *observer;
    struct mt_program_fit *found;
    char roomy[MT_DEVICE_NAME]; /* the same card with ENOUGH_BYTES */
    bool lacks_bf16;            /* the card emulates it, slowly */
};

/* ---- a trial ---- */

static bool is_plain(const struct mt_dry_trial *trial)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (trial->changes.has[change])
            return false;
    return true;
}

/* Adds a process to a trial. Each process has its own card, so the trial's peak is the peak of the process that needs most of
 * its card, with memory outside of the allocator. *most_bytes is the largest need so far. */
static mt_status take_peak(struct trials *trials, const struct mt_question *run, uint64_t *most_bytes,
                           struct mt_dry_trial *trial)
{
    struct mt_fit_device device = *trials->device;
    struct mt_replay_result peak;
    MT_TRY(mt_fit_device_count_outside(&device, run->trace, run->run));
    MT_TRY(mt_dry_run_peak(run, device.memory_bytes - device.reserve_bytes, &peak));
    const bool fits = trial->peak.fits && peak.fits;
    if (trial->outcome != MT_TRIAL_RAN || peak.reserved_bytes + device.reserve_bytes > *most_bytes) {
        *most_bytes = peak.reserved_bytes + device.reserve_bytes;
        trial->peak = peak;
        trial->rank = run->run->rank;
        if (is_plain(trial))
            trials->found->counted = device;
    }
    trial->peak.fits = fits;
    trial->outcome = MT_TRIAL_RAN;
    return MT_OK;
}

static mt_status take_run(struct trials *trials, const struct mt_record_answer *answer, uint64_t *most_bytes,
                          struct mt_dry_trial *trial)
{
    struct mt_question run = {0};
    MT_TRY(mt_trace_open(answer->text, &run.trace));
    mt_status status = mt_trace_find_numbered(run.trace, answer->number, &run.run);
    MT_THEN(status, take_peak(trials, &run, most_bytes, trial));
    mt_trace_close(run.trace);
    return status;
}

/* Returns what a process said of a change, of several one that made it; NULL if none spoke of it. */
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

/* Takes what became of the changes. One that was not made has the trial refused. */
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

static mt_status take_outcome(struct trials *trials, const struct mt_program_outcome *outcome,
                              struct mt_dry_trial *trial)
{
    uint64_t most_bytes = 0;
    trial->peak.fits = true;
    trial->rank = -1;
    if (mt_program_outcome_is_interrupted(outcome))
        return mt_fail(MT_FAILED, "interrupted");
    if (outcome->code != 0) {
        trial->outcome = MT_TRIAL_FAILED;
        mt_text_add(&trial->words, "the program fails %s: ", is_plain(trial) ? "as it is" : "with it");
        mt_program_outcome_add_failure(outcome, &trial->words);
        return MT_OK;
    }
    for (size_t i = 0; i < outcome->count; i++)
        if (outcome->answers[i].kind == MT_RECORD_RUN)
            MT_TRY(take_run(trials, &outcome->answers[i], &most_bytes, trial));
    if (trial->outcome != MT_TRIAL_RAN)
        return mt_fail(MT_FAILED, "the program took no memory of a card by PyTorch, so there is nothing to fit");
    take_changes(outcome, trial);
    return MT_OK;
}

/* Runs the program with a trace in a folder of the trial. */
static mt_status run_in(const char *folder, struct trials *trials, struct mt_dry_trial *trial)
{
    const struct mt_program_fit_observer *observer = trials->observer;
    struct mt_program_outcome outcome;
    struct mt_text trace = {0}, changes = {0};
    mt_text_add(&trace, "%s/trial.db", folder);
    mt_dry_changes_add_names(&trial->changes, &changes);
    const struct mt_dry_child child = {
        .options = trials->program, .device = trials->roomy, .trace = trace.data, .changes = changes.data};
    mt_status status = mt_dry_child_run(&child, trials->program->words, MT_KEEP_OUTPUT, &outcome);
    if (status == MT_OK && is_plain(trial) && observer != NULL)
        observer->plain_ran(observer->context, &outcome);
    if (outcome.code != 0 && is_plain(trial))
        mt_text_add(&trials->found->said, "%s", mt_text_get(&outcome.said));
    MT_THEN(status, take_outcome(trials, &outcome, trial));
    mt_program_outcome_release(&outcome);
    mt_text_release(&trace);
    mt_text_release(&changes);
    return status;
}

static mt_status run_trial(struct trials *trials, struct mt_dry_trial *trial)
{
    char *folder;
    if (trials->observer != NULL)
        trials->observer->begins(trials->observer->context, trial);
    MT_TRY(mt_job_folder_make(&folder));
    mt_status status = run_in(folder, trials, trial);
    mt_job_folder_remove(folder);
    return status;
}

static mt_status make_trial(void *context, struct mt_dry_trial *trial)
{
    struct trials *trials = context;
    if (!trials->lacks_bf16 || (!trial->changes.has[MT_DRY_AUTOCAST] && !trial->changes.has[MT_DRY_BF16_WEIGHTS]))
        return run_trial(trials, trial);
    trial->outcome = MT_TRIAL_REFUSED;
    mt_text_add(&trial->words, "%s has no units for bf16, which would be emulated there, and slow",
                trials->device->name);
    return MT_OK;
}

mt_status mt_program_fit_find(const struct mt_dry_options *program, const struct mt_fit_device *device,
                              const struct mt_program_fit_observer *observer, struct mt_program_fit *out)
{
    struct trials trials = {.program = program, .device = device, .observer = observer, .found = out};
    struct mt_card card;
    *out = (struct mt_program_fit){.counted = *device};
    MT_TRY(mt_device_find_card(device->name, &card));
    trials.lacks_bf16 = card.bf16_matrix_rate == 0;
    mt_device_spell_simulated(&card, ENOUGH_BYTES, trials.roomy);
    MT_TRY(mt_dry_options_check(program, trials.roomy));
    return mt_dry_fit_find(make_trial, &trials, &out->fit);
}

void mt_program_fit_release(struct mt_program_fit *found)
{
    mt_dry_fit_release(&found->fit);
    mt_text_release(&found->said);
}
