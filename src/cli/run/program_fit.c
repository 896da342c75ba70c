#include "cli/run/program_fit.h"

#include "analysis/dry_fit.h"
#include "analysis/replayed_fit.h"
#include "cli/output/question.h"
#include "cli/run/fit_report.h"
#include "words/dry_fit_words.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More memory than a program asks for, by which a change tells all that it saves. */
#define ENOUGH_BYTES ((uint64_t)1 << 40)

enum { INTERRUPTED = 128 + 2 }; /* as a shell has SIGINT */

/* The dry runs of a program. */
struct trials {
    const struct mt_dry_options *program;
    const struct mt_fit_device *device;
    struct mt_fit_device counted; /* with what the process of the plain trial's peak held outside of the allocator */
    char roomy[MT_DEVICE_NAME];   /* the same card with ENOUGH_BYTES */
    bool lacks_bf16;              /* the card emulates it, slowly */
    char folder[PATH_MAX];        /* of their traces */
    struct mt_text said;          /* by the program as it is, if it failed */
};

/* ---- a trial ---- */

static mt_status make_folder(struct trials *trials)
{
    const char *place = secure_getenv("TMPDIR");
    snprintf(trials->folder, sizeof trials->folder, "%s/memtrace-fit.XXXXXX",
             place != NULL && place[0] == '/' ? place : "/tmp");
    if (mkdtemp(trials->folder) == NULL)
        return mt_fail(MT_FAILED, "can't make %s: %s", trials->folder, strerror(errno));
    return MT_OK;
}

/* Removes the files of a trial. */
static void empty_folder(const struct trials *trials)
{
    DIR *folder = opendir(trials->folder);
    if (folder == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
}

static bool is_plain(const struct mt_dry_trial *trial)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (trial->changes.has[change])
            return false;
    return true;
}

/* Takes the peak of a process into that of the trial. Each has a card of its own, so the one that takes most of its card counts,
 * with what it holds outside of the allocator; *most_bytes is what that is so far. */
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
            trials->counted = device;
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
    if (status == MT_OK)
        status = take_peak(trials, &run, most_bytes, trial);
    mt_trace_close(run.trace);
    return status;
}

/* Returns what a process said of a change, of several one that made it; NULL if none spoke of it. */
static const struct mt_record_answer *find_change(const struct mt_dry_outcome *outcome, const char *name)
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
static void take_changes(const struct mt_dry_outcome *outcome, struct mt_dry_trial *trial)
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

static mt_status take_outcome(struct trials *trials, const struct mt_dry_outcome *outcome, struct mt_dry_trial *trial)
{
    uint64_t most_bytes = 0;
    trial->peak.fits = true;
    trial->rank = -1;
    if (outcome->code == INTERRUPTED)
        return mt_fail(MT_FAILED, "interrupted");
    if (outcome->code != 0) {
        trial->outcome = MT_TRIAL_FAILED;
        mt_text_add(&trial->words, "the program fails with it: ");
        mt_dry_outcome_add_failure(outcome, &trial->words);
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

static void note_trial(const struct mt_dry_trial *trial)
{
    struct mt_text title = {0};
    mt_dry_changes_add(&trial->changes, &title);
    mt_note("dry run %s", title.length > 0 ? mt_text_get(&title) : "as it is");
    mt_text_release(&title);
}

/* Tells what the first dry run had to say, which holds for all. Ranks have told it. */
static void tell_notes(const struct mt_dry_outcome *outcome)
{
    for (size_t i = 0; i < outcome->count && !outcome->is_many; i++)
        if (outcome->answers[i].kind == MT_RECORD_NOTE || outcome->answers[i].kind == MT_RECORD_LOST)
            mt_recording_tell_note(&outcome->answers[i]);
}

static mt_status run_trial(struct trials *trials, struct mt_dry_trial *trial)
{
    struct mt_dry_outcome outcome = {0};
    struct mt_text trace = {0}, changes = {0};
    mt_text_add(&trace, "%s/trial.db", trials->folder);
    mt_dry_changes_add_names(&trial->changes, &changes);
    const struct mt_dry_child child = {.options = trials->program,
                                       .device = trials->roomy,
                                       .trace = trace.data,
                                       .changes = changes.length > 0 ? changes.data : NULL,
                                       .is_quiet = changes.length > 0};
    note_trial(trial);
    mt_status status = mt_dry_child_run(&child, trials->program->words, &outcome);
    if (status == MT_OK && changes.length == 0)
        tell_notes(&outcome);
    if (outcome.code != 0 && changes.length == 0)
        mt_text_add(&trials->said, "%s", mt_text_get(&outcome.said));
    if (status == MT_OK)
        status = take_outcome(trials, &outcome, trial);
    mt_dry_outcome_release(&outcome);
    empty_folder(trials);
    mt_text_release(&trace);
    mt_text_release(&changes);
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

/* ---- the answer ---- */

struct answer {
    const char *program, *device, *smallest_card, *best;
    uint64_t memory_bytes, reserve_bytes, capacity_bytes;
    bool fits;
    int64_t room_bytes, rank;
    struct mt_replay_result peak;
    struct mt_trial_rows trials;
    struct mt_text words, best_text;
};

#define ROW struct answer
static const struct mt_field answer_fields[] = {
    MT_TEXT(ROW, program, "program", NULL, NULL),
    MT_TEXT(ROW, device, "on", NULL, "the device that is asked about"),
    MT_BYTES(ROW, memory_bytes, "memory_bytes", NULL, NULL),
    MT_BYTES(ROW, reserve_bytes, "reserve_bytes", NULL,
             "kept free: of a card what the program holds outside of the allocator, unless `--reserve` says otherwise"),
    MT_BYTES(ROW, capacity_bytes, "capacity_bytes", NULL, NULL),
    MT_FLAG(ROW, fits, "fits", NULL, NULL),
    MT_INTEGER(ROW, room_bytes, "room_bytes", NULL, NULL),
    MT_ROW(ROW, peak, "peak", &mt_replay_peak_type, NULL),
    MT_KNOWN(ROW, rank, "rank", NULL, "of many ranks, the one that takes most of its card; the peak is its"),
    MT_ROWS(ROW, trials.items, trials.count, "changes", &mt_trial_type, NULL),
    MT_ROWS(ROW, trials.gaps, trials.gap_count, "unknown", &mt_gap_type, NULL),
    MT_TEXT(ROW, best, "remedy", NULL, NULL),
    MT_TEXT(ROW, smallest_card, "smallest_card", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(ROW, answer_fields);
#undef ROW

static void fill(const struct trials *trials, const struct mt_dry_fit *fit, struct answer *out)
{
    const struct mt_fit_device *device = &trials->counted;
    const uint64_t beyond_bytes = device->reserve_bytes - trials->device->reserve_bytes;
    const struct mt_dry_trial *best = mt_dry_fit_best(fit);
    *out = (struct answer){.device = device->name,
                           .memory_bytes = device->memory_bytes,
                           .reserve_bytes = device->reserve_bytes,
                           .capacity_bytes = device->memory_bytes - device->reserve_bytes,
                           .fits = fit->plain.peak.fits,
                           .peak = fit->plain.peak,
                           .rank = fit->plain.rank,
                           .smallest_card = mt_card_for_peak(fit->plain.peak.reserved_bytes + beyond_bytes)};
    out->room_bytes = (int64_t)out->capacity_bytes - (int64_t)fit->plain.peak.reserved_bytes;
    for (char *const *word = trials->program->words; *word != NULL; word++)
        mt_text_add(&out->words, "%s%s", out->words.length > 0 ? " " : "", *word);
    if (!out->fits && best != NULL)
        mt_dry_changes_add_names(&best->changes, &out->best_text);
    out->program = mt_text_get(&out->words);
    out->best = out->best_text.data;
    mt_trial_rows_create(fit, &out->trials);
}

static void release(struct answer *answer)
{
    mt_text_release(&answer->words);
    mt_text_release(&answer->best_text);
    mt_trial_rows_release(&answer->trials);
}

static void print_verdict(const struct answer *answer)
{
    char reserved[MT_BYTES_TEXT], room[MT_BYTES_TEXT];
    struct mt_text who = {0};
    mt_format_bytes(answer->peak.reserved_bytes, reserved);
    mt_format_bytes((uint64_t)(answer->room_bytes < 0 ? -answer->room_bytes : answer->room_bytes), room);
    if (answer->rank < 0)
        mt_text_add(&who, "it");
    else
        mt_text_add(&who, "rank %" PRId64 ", which takes most,", answer->rank);
    if (answer->fits && answer->room_bytes >= 0)
        mt_say("It fits: %s reserves %s at its peak, which leaves %s.", who.data, reserved, room);
    else if (answer->fits)
        mt_say("It fits, but only as cached memory is given back: with more memory %s would reserve %s.", who.data,
               reserved);
    else
        mt_say("It does not fit: %s reserves %s, %s more than there is.", who.data, reserved, room);
    mt_text_release(&who);
}

/* Prints the lines that make each change that lowers what is reserved. */
static void print_hints(const struct mt_trial_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct mt_trial_row *row = &rows->items[i];
        if (row->difference_bytes >= 0 || strchr(row->kind.data, ',') != NULL)
            continue;
        mt_say("\n%s (%s):", mt_text_get(&row->change), row->where);
        for (const char *line = mt_text_get(&row->hint); *line != '\0'; line += strcspn(line, "\n") + 1)
            printf("    %.*s\n", (int)strcspn(line, "\n"), line);
    }
}

static void print_best(const struct mt_dry_fit *fit)
{
    const struct mt_dry_trial *best = mt_dry_fit_best(fit);
    struct mt_text changes = {0};
    if (fit->plain.peak.fits)
        return;
    if (best != NULL)
        mt_dry_changes_add(&best->changes, &changes);
    if (best == NULL)
        mt_say("\nNone of these makes it fit, nor do those together that lower it.");
    else
        mt_say("\n%s: %s.",
               best >= fit->combined && best < fit->combined + fit->combined_count
                   ? "No single change suffices. Together these make it fit"
                   : "The least change that makes it fit",
               mt_text_get(&changes));
    mt_text_release(&changes);
}

static void print_text(const struct trials *trials, const struct mt_dry_fit *fit, const struct answer *answer)
{
    mt_say("%s, run dry", answer->program);
    mt_fit_device_print(&trials->counted);
    print_verdict(answer);
    if (answer->trials.count > 0) {
        mt_say("\nChanges, each made to a dry run of the program:");
        mt_rows_print(&mt_trial_type, "change fits allocated reserved difference_bytes", "allocated",
                      answer->trials.items, answer->trials.count);
    }
    print_hints(&answer->trials);
    for (size_t i = 0; i < answer->trials.gap_count; i++)
        mt_say("%sNot tried: %s, since %s.", i == 0 ? "\n" : "", answer->trials.gaps[i].kind,
               answer->trials.gaps[i].reason);
    print_best(fit);
    if (trials->counted.reserve_bytes > 0 && trials->counted.asked_reserve_bytes == MT_RESERVE_UNSET)
        mt_say("\nKept free is what it holds outside of the allocator, as estimated: CUDA's context, libraries, NCCL "
               "(memtrace "
               "cards; --reserve SIZE).");
    if (answer->smallest_card != NULL)
        mt_say("\nThe smallest of the known cards that the program as it is fits: sim:%s", answer->smallest_card);
}

static mt_status print_answer(const struct trials *trials, const struct mt_dry_fit *fit, mt_report_form form)
{
    struct answer answer;
    fill(trials, fit, &answer);
    if (form == MT_REPORT_JSON)
        mt_answer_print_json("fit_program", &answer_type, &answer);
    else
        print_text(trials, fit, &answer);
    release(&answer);
    return fit->plain.peak.fits ? MT_OK : mt_fail(MT_FAILED, "the program does not fit %s", trials->device->name);
}

/* Fails for a program that fails as it is, with the end of what it printed. */
static mt_status fail_program(const struct trials *trials)
{
    fputs(mt_text_get(&trials->said), stderr);
    return mt_fail(MT_FAILED, "the program fails as it is, without a change; see above");
}

mt_status mt_program_fit(const struct mt_dry_options *program, const struct mt_fit_device *device, mt_report_form form)
{
    struct trials trials = {.program = program, .device = device, .counted = *device};
    struct mt_dry_fit fit = {0};
    struct mt_card card;
    MT_TRY(mt_device_find_card(device->name, &card));
    trials.lacks_bf16 = card.bf16_matrix_rate == 0;
    mt_device_spell_simulated(&card, ENOUGH_BYTES, trials.roomy);
    MT_TRY(mt_dry_children_prepare(program, trials.roomy));
    MT_TRY(make_folder(&trials));
    mt_status status = mt_dry_fit_find(make_trial, &trials, &fit);
    if (status == MT_OK)
        status = fit.plain.outcome == MT_TRIAL_RAN ? print_answer(&trials, &fit, form) : fail_program(&trials);
    mt_dry_fit_release(&fit);
    mt_text_release(&trials.said);
    empty_folder(&trials);
    rmdir(trials.folder);
    return status;
}
