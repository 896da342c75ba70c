#include "cli/run/program_fit_report.h"

#include "analysis/fit/program_fit.h"
#include "analysis/fit/replayed_fit.h"
#include "cli/output/question.h"
#include "cli/record/dry_report.h"
#include "cli/record/program_notes.h"
#include "cli/run/fit_report.h"
#include "words/dry_fit_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The question. */
struct asked {
    const struct mt_dry_options *program;
    const struct mt_fit_device *device;
    const struct mt_dry_report *report; /* of the unchanged program */
};

struct answer {
    const char *program, *device, *smallest_card, *best;
    uint64_t memory_bytes, reserve_bytes, capacity_bytes;
    uint64_t needed_bytes; /* the peak's reserved bytes, and reserve_bytes */
    bool fits;
    int64_t room_bytes, rank, sharers;
    struct mt_replay_result peak;
    struct mt_trial_rows trials;
    struct mt_caveat_lists caveats; /* borrowed */
    struct mt_text words, best_text;
};

#define ROW struct answer
static const struct mt_field answer_fields[] = {
    MT_TEXT(ROW, program, "program", NULL, NULL),
    MT_TEXT(ROW, device, "on", NULL, "the device that is asked about"),
    MT_BYTES(ROW, memory_bytes, "memory_bytes", NULL, NULL),
    MT_BYTES(ROW, reserve_bytes, "reserve_bytes", NULL,
             "kept free: the program's memory outside of the allocator, unless `--reserve` names a size"),
    MT_BYTES(ROW, capacity_bytes, "capacity_bytes", NULL, NULL),
    MT_FLAG(ROW, fits, "fits", NULL, NULL),
    MT_BYTES(ROW, needed_bytes, "bytes", NULL, NULL),
    MT_BYTES(ROW, reserve_bytes, "outside", NULL, NULL),
    MT_INTEGER(ROW, room_bytes, "room_bytes", NULL, NULL),
    MT_ROW(ROW, peak, "peak", &mt_replay_peak_type, NULL),
    MT_KNOWN(ROW, rank, "rank", NULL, "of many ranks, the one that takes most of its card"),
    MT_POSITIVE(ROW, sharers, "sharers", NULL, "ranks that use that card; the peak is their sum"),
    MT_ROWS(ROW, trials.items, trials.count, "changes", &mt_trial_type, NULL),
    MT_ROWS(ROW, trials.gaps, trials.gap_count, "left_out", &mt_gap_type, NULL),
    MT_TEXT(ROW, best, "remedy", NULL, NULL),
    MT_TEXT(ROW, smallest_card, "smallest_card", NULL, NULL),
    MT_PART(ROW, caveats, &mt_caveat_lists_type),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(ROW, answer_fields);
#undef ROW

static void fill(const struct asked *asked, const struct mt_program_fit *found, struct answer *out)
{
    const struct mt_fit_device *device = &found->counted;
    const struct mt_dry_fit *fit = &found->fit;
    const uint64_t beyond_bytes = device->reserve_bytes - asked->device->reserve_bytes;
    const struct mt_dry_trial *best = mt_dry_fit_best(fit);
    *out = (struct answer){.device = device->name,
                           .memory_bytes = device->memory_bytes,
                           .reserve_bytes = device->reserve_bytes,
                           .capacity_bytes = device->memory_bytes - device->reserve_bytes,
                           .fits = fit->plain.peak.fits,
                           .peak = fit->plain.peak,
                           .rank = fit->plain.rank,
                           .sharers = fit->plain.sharers,
                           .smallest_card = mt_card_for_peak(fit->plain.peak.reserved_bytes + beyond_bytes)};
    out->needed_bytes = out->peak.reserved_bytes + out->reserve_bytes;
    if (asked->report->worst != NULL)
        out->caveats = asked->report->worst->row.caveats;
    out->room_bytes = (int64_t)out->capacity_bytes - (int64_t)fit->plain.peak.reserved_bytes;
    for (char *const *word = asked->program->words; *word != NULL; word++)
        mt_text_add(&out->words, "%s%s", out->words.length > 0 ? " " : "", *word);
    if (!out->fits && best != NULL)
        mt_dry_changes_add_names(&best->changes, &out->best_text);
    out->program = mt_text_get(&out->words);
    out->best = out->best_text.data;
    mt_trial_rows_create(fit, &found->replayed, &out->trials);
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
    const char *reserves = answer->sharers > 1 ? "reserve" : "reserves";
    mt_format_bytes(answer->peak.reserved_bytes, reserved);
    mt_format_bytes((uint64_t)(answer->room_bytes < 0 ? -answer->room_bytes : answer->room_bytes), room);
    if (answer->rank < 0)
        mt_text_add(&who, "it");
    else if (answer->sharers > 1)
        mt_text_add(&who, "the %" PRId64 " ranks that share a card", answer->sharers);
    else
        mt_text_add(&who, "rank %" PRId64 ", which takes most,", answer->rank);
    if (answer->fits && answer->room_bytes >= 0)
        mt_say("It fits: %s %s %s at the peak, which leaves %s.", who.data, reserves, reserved, room);
    else if (answer->fits)
        mt_say("It fits, but only because cached memory is freed: with more memory %s would reserve %s.", who.data,
               reserved);
    else
        mt_say("It does not fit: %s %s %s, %s more than there is.", who.data, reserves, reserved, room);
    mt_text_release(&who);
}

/* Prints the lines to write for each change that lowers the reserved peak. */
static void print_hints(const struct mt_trial_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct mt_trial_row *row = &rows->items[i];
        if (strchr(row->kind.data, ',') != NULL)
            continue;
        mt_say(row->where[0] != '\0' ? "\n%s (%s):" : "\n%s:", mt_text_get(&row->change), row->where);
        for (const char *line = mt_text_get(&row->hint); *line != '\0'; line += strcspn(line, "\n") + 1)
            printf("    %.*s\n", (int)strcspn(line, "\n"), line);
        if (row->assumed.length > 0)
            mt_say("    by replay: %s", row->assumed.data);
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

static void print_text(const struct mt_program_fit *found, const struct answer *answer)
{
    mt_say("%s, run dry", answer->program);
    mt_fit_device_print(&found->counted);
    print_verdict(answer);
    if (answer->trials.count > 0) {
        mt_say("\nChanges that reserve less, by a dry run of the changed program or by a replay of its blocks:");
        mt_rows_print(&mt_trial_type, "change basis fits allocated reserved difference_bytes", "allocated",
                      answer->trials.items, answer->trials.count);
    }
    print_hints(&answer->trials);
    for (size_t i = 0; i < answer->trials.gap_count; i++)
        mt_say("%sLeft out: %s: %s.", i == 0 ? "\n" : "", answer->trials.gaps[i].kind, answer->trials.gaps[i].reason);
    print_best(&found->fit);
    if (found->counted.reserve_bytes > 0 && found->counted.asked_reserve_bytes == MT_RESERVE_UNSET)
        mt_say("\nKept free is what it holds outside of the allocator, as estimated: CUDA's context, libraries, NCCL "
               "(memtrace "
               "cards; --reserve SIZE).");
    if (answer->smallest_card != NULL)
        mt_say("\nThe smallest of the known cards that the program as it is fits: sim:%s", answer->smallest_card);
}

static mt_status print_answer(const struct asked *asked, const struct mt_program_fit *found, mt_report_form form)
{
    struct answer answer;
    fill(asked, found, &answer);
    if (form == MT_REPORT_JSON)
        mt_answer_print_json("fit_program", &answer_type, &answer);
    else
        print_text(found, &answer);
    release(&answer);
    return found->fit.plain.peak.fits ? MT_OK : mt_fail(MT_FAILED, "the program does not fit %s", asked->device->name);
}

/* ---- progress ---- */

static void note_begin(void *context, size_t count)
{
    (void)context;
    mt_note("%zu dry runs of the program", count);
}

/* Prints a note with the result of a trial: "3 of 9: fused optimizer: 7.75 GiB reserved, does not fit". */
static void note_trial(void *context, const struct mt_dry_trial *trial, size_t number, size_t count)
{
    (void)context;
    struct mt_text line = {0};
    if (count > 1)
        mt_text_add(&line, "%zu of %zu: ", number, count);
    const size_t begin = line.length;
    mt_dry_changes_add(&trial->changes, &line);
    mt_text_add(&line, "%s: ", line.length > begin ? "" : "as it is");
    if (trial->outcome == MT_TRIAL_RAN)
        mt_text_add(&line, "%s reserved, %s", MT_SIZE(trial->peak.reserved_bytes),
                    trial->peak.fits ? "fits" : "does not fit");
    else
        mt_text_add_visible(&line, mt_text_get(&trial->words));
    mt_note("%s", line.data);
    mt_text_release(&line);
}

/* Notes the first dry run's notes, which apply to all, and loads its report. */
static void note_plain(void *context, const struct mt_program_outcome *outcome)
{
    struct mt_dry_report *report = context;
    mt_program_outcome_note(outcome);
    mt_dry_report_load(outcome, "", "", report);
}

/* Fails if the unchanged program fails, with the end of its output, or if its dry run was killed. */
static mt_status fail_program(const struct mt_program_fit *found)
{
    if (found->fit.plain.outcome == MT_TRIAL_KILLED)
        return mt_fail(MT_FAILED, "there is no answer: %s. If host memory was full, try --jobs 1",
                       mt_text_get(&found->fit.plain.words));
    fputs(mt_text_get(&found->said), stderr);
    return mt_fail(MT_FAILED, "the program fails as it is, without a change; see above");
}

/* Prints the answer for a program that ran. */
static mt_status answer_program(const struct asked *asked, const struct mt_program_fit *found,
                                struct mt_dry_report *report, mt_report_form form, mt_fit_strictness strictness)
{
    if (found->fit.plain.outcome != MT_TRIAL_RAN)
        return fail_program(found);
    mt_dry_report_shrink_card(report, MT_ROOMY_BYTES - (found->counted.memory_bytes - found->counted.reserve_bytes));
    MT_TRY(print_answer(asked, found, form));
    if (strictness == MT_FIT_LENIENT || !mt_dry_report_is_uncertain(report))
        return MT_OK;
    mt_dry_report_note_caveats(report);
    return mt_fail(MT_NOT_CERTAIN, "the program fits, but something that could take memory is unknown or did not run");
}

mt_status mt_program_fit(const struct mt_dry_options *program, const struct mt_fit_device *device, mt_report_form form,
                         mt_fit_strictness strictness)
{
    struct mt_dry_report report = {0};
    const struct mt_program_fit_observer observer = {&report, note_begin, note_trial, note_plain};
    const struct asked asked = {program, device, &report};
    struct mt_program_fit found;
    mt_status status = mt_dry_hint(mt_program_fit_find(program, device, &observer, &found), program);
    MT_THEN(status, answer_program(&asked, &found, &report, form, strictness));
    mt_program_fit_release(&found);
    mt_dry_report_release(&report);
    return status;
}
