#include "words/check_words.h"

#include "analysis/run_settings.h"
#include "answer/answer.h"
#include "answer/escape.h"
#include "base/memory.h"
#include "words/observed_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* From this percentage on, a finding leaves it out. */
enum { MOST_PERCENT = 1000 };

void mt_check_add_against(const struct mt_check *check, struct mt_text *out)
{
    mt_text_add(out, "run %" PRId64, check->against->run->id);
    if (check->against->file != NULL)
        mt_text_add(out, " of %s", check->against->file);
}

/* Names by kind; that of a peak goes on with its measure, others with what they are about. */
static const char *const criterion_names[] = {
    [MT_CRITERION_ENDED] = "ended well", [MT_CRITERION_PEAK] = "max-",     [MT_CRITERION_CATEGORY] = "category",
    [MT_CRITERION_LARGEST] = "largest",  [MT_CRITERION_ROLE] = "role",     [MT_CRITERION_MODULE] = "module",
    [MT_CRITERION_PHASE] = "phase",      [MT_CRITERION_LEAKS] = "no-leaks"};

static void add_name(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out)
{
    if (criterion->is_relative) {
        mt_text_add(out, "against ");
        mt_check_add_against(check, out);
        mt_text_add(out, ": ");
    }
    if (criterion->kind == MT_CRITERION_PEAK)
        mt_text_add(out, "%s%s", criterion->is_relative ? "" : "max-", mt_measure_name(criterion->measure));
    else if (criterion->is_relative)
        mt_text_add(out, "categories");
    else
        mt_text_add(out, "%s%s%s", criterion_names[criterion->kind], criterion->name[0] != '\0' ? " " : "",
                    criterion->name);
}

static void add_excess(const struct mt_criterion *criterion, struct mt_text *out)
{
    uint64_t over = criterion->value_bytes - criterion->bound_bytes;
    mt_text_add(out, "%s, over %s by %s", MT_SIZE(criterion->value_bytes), MT_SIZE(criterion->bound_bytes),
                MT_SIZE(over));
    double percent = criterion->bound_bytes > 0 ? (double)over * 100 / (double)criterion->bound_bytes : MOST_PERCENT;
    if (percent < MOST_PERCENT)
        mt_text_add(out, " (%.2f %%)", percent);
}

/* Adds "einsum +54.38 MiB, FFN +54.00 MiB and 9 more categories". */
static void add_growths(const struct mt_check *check, struct mt_text *out)
{
    enum { MOST_NAMED = 3 };
    size_t named = check->growth_count < MOST_NAMED ? check->growth_count : MOST_NAMED,
           rest = check->growth_count - named;
    for (size_t i = 0; i < named; i++)
        mt_text_add(out, "%s%s %s", i > 0 ? ", " : "", check->growths[i].category,
                    MT_SIZE_DIFFERENCE((int64_t)(check->growths[i].bytes - check->growths[i].against_bytes)));
    if (rest > 0)
        mt_text_add(out, " and %zu more categor%s", rest, rest == 1 ? "y" : "ies");
}

/* Adds ", with 1 % allowed" or ", with 1.00 MiB allowed". */
static void add_allowance(const struct mt_budget *budget, uint64_t bytes, struct mt_text *out)
{
    double percent = mt_budget_tolerance(budget);
    if ((double)budget->floor_bytes > (double)bytes * percent / 100)
        mt_text_add(out, ", with %s allowed", MT_SIZE(budget->floor_bytes));
    else
        mt_text_add(out, ", with %g %% allowed", percent);
}

/* Adds "2.85 GiB, 177.38 MiB (6.47 %) more than 2.68 GiB, with 1 % allowed: einsum +54.38 MiB". */
static void add_growth(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out)
{
    uint64_t more = criterion->value_bytes - criterion->against_bytes;
    bool is_reserved = criterion->kind == MT_CRITERION_PEAK && criterion->measure == MT_MEASURE_RESERVED;
    mt_text_add(out, "%s, %s", MT_SIZE(criterion->value_bytes), MT_SIZE(more));
    double percent =
        criterion->against_bytes > 0 ? (double)more * 100 / (double)criterion->against_bytes : MOST_PERCENT;
    if (percent < MOST_PERCENT)
        mt_text_add(out, " (%.2f %%)", percent);
    mt_text_add(out, " more than %s", MT_SIZE(criterion->against_bytes));
    add_allowance(check->budget, criterion->against_bytes, out);
    if (is_reserved || check->growth_count == 0)
        return;
    mt_text_add(out, ": ");
    add_growths(check, out);
}

/* Adds the finding of a criterion that compares with another run. */
static void add_comparison(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out)
{
    if (!criterion->passed)
        add_growth(check, criterion, out);
    else if (criterion->kind == MT_CRITERION_CATEGORY)
        mt_text_add(out, "none grew by more than is allowed");
    else
        mt_text_add(out, "%s against %s", MT_SIZE(criterion->value_bytes), MT_SIZE(criterion->against_bytes));
}

/* Adds what a loop without steps left: "80.09 MiB an iteration of validate, 560.63 MiB in 7: activation of
 * aten::addmm". */
static void add_loop(const struct mt_leaks *leaks, uint64_t bytes, struct mt_text *out)
{
    const int64_t count = leaks->last_step - leaks->first_step;
    mt_text_add(out, "%s an iteration of %s, %s in %" PRId64 ": ", MT_SIZE(bytes / (uint64_t)count), leaks->loop,
                MT_SIZE(bytes), count);
}

/* Adds "Loss of sum at model.loss and 2 more kinds". */
static void add_kinds(const struct mt_leaks *leaks, struct mt_text *out)
{
    const struct mt_leak_row *first = &leaks->rows[0];
    mt_text_add(out, "%s of %s at %s", first->category, first->op, first->place[0] != '\0' ? first->place : "no span");
    if (leaks->row_count > 1)
        mt_text_add(out, " and %zu more kind%s", leaks->row_count - 1, leaks->row_count == 2 ? "" : "s");
}

/* Adds "1.25 KiB a step, 5.00 KiB from the end of step 1 to the end of step 4: Loss of sum at model.loss and 2 more
 * kinds". */
static void add_leaks(const struct mt_leaks *leaks, const struct mt_observations *observations, uint64_t bytes,
                      struct mt_text *out)
{
    if (leaks->loop[0] != '\0')
        add_loop(leaks, bytes, out);
    else
        mt_text_add(out, "%s a step, %s from the end of step %" PRId64 " to the end of step %" PRId64 ": ",
                    MT_SIZE(bytes / (uint64_t)(leaks->last_step - leaks->first_step)), MT_SIZE(bytes),
                    leaks->first_step, leaks->last_step);
    add_kinds(leaks, out);
    if (observations->count > 0 && observations->items[0].holder != NULL) {
        mt_text_add(out, "; ");
        mt_holder_add(observations->items[0].holder, out);
    }
}

/* Adds that steps leave nothing, or only numbers: "4 B a step, too little to matter: Loss of sum at no span". */
static void add_no_leaks(const struct mt_leaks *leaks, uint64_t bytes, struct mt_text *out)
{
    if (bytes == 0) {
        mt_text_add(out, "each step ends with as much memory as the step before");
        return;
    }
    mt_text_add(out, "%s %s, too little to matter: ", MT_SIZE(bytes / (uint64_t)(leaks->last_step - leaks->first_step)),
                leaks->loop[0] != '\0' ? "an iteration" : "a step");
    add_kinds(leaks, out);
}

static void add_finding(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out)
{
    if (criterion->kind == MT_CRITERION_ENDED)
        mt_text_add(out, "it %s%s", mt_run_state_words(check->question->run->state),
                    mt_run_is(check->question->run, MT_RUN_RUNNING) ? ": check it once it has ended" : "");
    else if (criterion->kind == MT_CRITERION_LEAKS && criterion->passed)
        add_no_leaks(&check->leaks, criterion->value_bytes, out);
    else if (criterion->kind == MT_CRITERION_LEAKS && check->leaks_are_numbers)
        mt_observed_add(mt_check_growth(check), out);
    else if (criterion->kind == MT_CRITERION_LEAKS)
        add_leaks(&check->leaks, &check->observations, criterion->value_bytes, out);
    else if (criterion->is_relative)
        add_comparison(check, criterion, out);
    else if (criterion->passed)
        mt_text_add(out, "%s of %s", MT_SIZE(criterion->value_bytes), MT_SIZE(criterion->bound_bytes));
    else
        add_excess(criterion, out);
}

void mt_check_add_run(const struct mt_check *check, struct mt_text *out)
{
    mt_text_add_run_name(out, check->question->run);
}

/* Returns the number of criteria that were asked for, and of that on the end, which nobody asks for, if it failed. */
static size_t count_asked(const struct mt_check *check)
{
    size_t count = 0;
    for (size_t i = 0; i < check->count; i++)
        count += check->criteria[i].kind != MT_CRITERION_ENDED || !check->criteria[i].passed;
    return count;
}

void mt_check_add_verdict(const struct mt_check *check, struct mt_text *out)
{
    size_t count = count_asked(check);
    const char *criteria = count == 1 ? "criterion" : "criteria";
    mt_check_add_run(check, out);
    if (check->failed == 0)
        mt_text_add(out, " passes %zu %s", count, criteria);
    else
        mt_text_add(out, " fails %zu of %zu %s", check->failed, count, criteria);
}

/* Returns the share of its bound that a criterion uses; below 0 if it bounds no bytes. */
static double used_share(const struct mt_criterion *criterion)
{
    return criterion->bound_bytes > 0 ? (double)criterion->value_bytes / (double)criterion->bound_bytes : -1;
}

void mt_check_add_nearest(const struct mt_check *check, struct mt_text *out)
{
    const struct mt_criterion *nearest = &check->criteria[0];
    for (size_t i = 1; i < check->count; i++)
        if (used_share(&check->criteria[i]) > used_share(nearest))
            nearest = &check->criteria[i];
    if (used_share(nearest) < 0)
        return;
    mt_text_add(out, ": ");
    add_name(check, nearest, out);
    mt_text_add(out, " comes nearest, with ");
    add_finding(check, nearest, out);
}

static mt_status add_differences(const struct mt_check *check, struct mt_text *out)
{
    struct mt_settings before = {0}, now = {0};
    struct mt_settings_difference difference;
    if (check->against == NULL)
        return MT_OK;
    mt_status status = mt_settings_load(check->against->trace, check->against->run, &before);
    MT_THEN(status, mt_settings_load(check->question->trace, check->question->run, &now));
    if (status == MT_OK) {
        mt_settings_compare(&before, &now, MT_SETTINGS_ALL, &difference);
        for (size_t i = 0; i < difference.different_count; i++) {
            mt_text_add(out, "%s", i > 0 ? ", " : "");
            mt_setting_add_change(&difference.different[i], " ", out);
        }
        if (difference.different_count > 0 && difference.unknown_count > 0)
            mt_text_add(out, "; ");
        mt_settings_add_unknown(&difference, check->against->run, check->question->run, out);
    }
    mt_settings_release(&before);
    mt_settings_release(&now);
    return status;
}

/* The kinds of criteria as bits, and one for all that compare with another run. */
#define OF(kind) (1u << MT_CRITERION_##kind)
enum { RELATIVE = 1u << 16 };

/* Returns the kinds of the criteria that failed. Of the run's end only running out of memory leads to a command. */
static unsigned failed_kinds(const struct mt_check *check)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < check->count; i++) {
        const struct mt_criterion *criterion = &check->criteria[i];
        if (!criterion->passed)
            kinds |= criterion->is_relative ? RELATIVE : 1u << criterion->kind;
    }
    return mt_run_is(check->question->run, MT_RUN_OOM) ? kinds : kinds & ~OF(ENDED);
}

/* Adds the runs and the trace to a command. */
static void add_runs(const struct mt_check *check, const struct mt_check_place *place, bool is_relative,
                     struct mt_text *command)
{
    int64_t run = check->question->run->id;
    if (is_relative) {
        mt_text_add(command, " ");
        mt_text_add_shell_word(command, check->budget->against);
        mt_text_add(command, " %" PRId64, run);
    } else if (place->names_run) {
        mt_text_add(command, " --run %" PRId64, run);
    }
    if (place->trace == NULL)
        return;
    mt_text_add(command, " --trace ");
    mt_text_add_shell_word(command, place->trace);
}

/* Adds the commands that tell more of the criteria that failed, as many as there is room for. */
static void add_hints(const struct mt_check *check, const struct mt_check_place *place, struct mt_check_hints *out)
{
    static const struct {
        unsigned kinds;
        const char *command, *tells;
    } hints[] = {
        {OF(ENDED), "oom", "the refused request, live memory, and changes that are enough"},
        {RELATIVE, "diff", "why it is more than there"},
        {OF(LEAKS), "advise", "what steps leave behind, and what else could be spared"},
        {OF(PEAK) | OF(CATEGORY) | OF(ROLE) | OF(MODULE), "top --at peak", "the largest blocks at the peak"},
        {OF(LARGEST), "top", "the largest blocks of the run"},
        {OF(PEAK) | OF(PHASE), "peak", "when the peaks were, and what they were made of"},
    };
    unsigned failed = failed_kinds(check);
    for (size_t i = 0; i < sizeof hints / sizeof hints[0] && out->count < MT_MOST_CHECK_HINTS; i++) {
        struct mt_check_hint *hint = &out->items[out->count];
        if ((failed & hints[i].kinds) == 0)
            continue;
        hint->tells = hints[i].tells;
        mt_text_add(&hint->command, "memtrace %s", hints[i].command);
        add_runs(check, place, hints[i].kinds == RELATIVE, &hint->command);
        out->count++;
    }
}

#define ROW struct mt_criterion_row
static const struct mt_field criterion_fields[] = {
    MT_OWNED(ROW, name, "criterion", "failed", "its name"),
    MT_NAME(ROW, criterion.name, "category", NULL, "the category, role, module or phase that it is about, or null"),
    MT_FLAG(ROW, criterion.is_relative, "relative", NULL, "true if its bound comes of the run that `--against` names"),
    MT_FLAG(ROW, criterion.passed, "passed", NULL, NULL),
    MT_KNOWN(ROW, value_bytes, "value_bytes", NULL, "this and the next two: null for the run's end"),
    MT_KNOWN(ROW, bound_bytes, "bound_bytes", NULL, NULL),
    MT_KNOWN(ROW, over_bytes, "over_bytes", NULL, "0 if it passed"),
    MT_KNOWN(ROW, against_bytes, "against_bytes", NULL, "of the run that `--against` names; null if not relative"),
    MT_OWNED(ROW, finding, "text", "found", "what was found"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_criterion_type = MT_ROW_TYPE(ROW, criterion_fields);
#undef ROW

#define ROW struct mt_category_growth
static const struct mt_field growth_fields[] = {
    MT_TEXT(ROW, category, "category", NULL, NULL),
    MT_BYTES(ROW, bytes, "bytes", NULL, "live at the allocated peak, rounding included"),
    MT_BYTES(ROW, against_bytes, "against_bytes", NULL, "the same of the other run"),
    MT_FIELDS_END,
};
static const struct mt_row_type growth_type = MT_ROW_TYPE(ROW, growth_fields);
#undef ROW

#define ROW struct mt_leak_row
static const struct mt_field leak_fields[] = {
    MT_TEXT(ROW, category, "category", NULL, NULL),
    MT_TEXT(ROW, role, "role", NULL, NULL),
    MT_TEXT(ROW, op, "op", NULL, NULL),
    MT_TEXT(ROW, phase, "phase", NULL, NULL),
    MT_TEXT(ROW, dtype, "dtype", NULL, NULL),
    MT_TEXT(ROW, place, "span", NULL, "with `*` for the number of the layer"),
    MT_TEXT(ROW, shape, "shape", NULL, "empty if there are several"),
    MT_BYTES(ROW, first_bytes, "first_bytes", NULL, "requested bytes that are live at the end of `first_step`"),
    MT_COUNT(ROW, first_blocks, "first_blocks", NULL, NULL),
    MT_BYTES(ROW, last_bytes, "last_bytes", NULL, "live at the end of `last_step`"),
    MT_COUNT(ROW, last_blocks, "last_blocks", NULL, NULL),
    MT_COUNT(ROW, grew, "grew", NULL, "ends of steps at which it was more than at the one before"),
    MT_FIELDS_END,
};
static const struct mt_row_type leak_type = MT_ROW_TYPE(ROW, leak_fields);
#undef ROW

#define ROW struct mt_leaks
static const struct mt_field leaks_fields[] = {
    MT_NAME(ROW, loop, "loop", NULL,
            "the program phase with iterations that count as steps; null: steps were compared"),
    MT_INTEGER(ROW, first_step, "first_step", NULL, "the first that was compared at its end"),
    MT_INTEGER(ROW, last_step, "last_step", NULL, "the last"),
    MT_ROWS(ROW, rows, row_count, "rows", &leak_type, "the most growth first"),
    MT_FIELDS_END,
};
static const struct mt_row_type leaks_type = MT_ROW_TYPE(ROW, leaks_fields);
#undef ROW

#define ROW struct mt_check_against_row
static const struct mt_field against_fields[] = {
    MT_INTEGER(ROW, run.id, "run", NULL, NULL),
    MT_TEXT(ROW, run.name, "name", NULL, NULL),
    MT_TEXT(ROW, file, "file", NULL, "null: the same trace"),
    MT_NUMBER(ROW, tolerance_percent, "tolerance_percent", NULL, NULL),
    MT_BYTES(ROW, floor_bytes, "floor_bytes", NULL, "allowed where the tolerance is less"),
    MT_ROWS(ROW, growths, growth_count, "categories", &growth_type,
            "that are more than is allowed, the most first: the reasons of an allocated peak that fails"),
    MT_FIELDS_END,
};
static const struct mt_row_type against_type = MT_ROW_TYPE(ROW, against_fields);
#undef ROW

#define ROW struct mt_check_row
static const struct mt_field check_fields[] = {
    MT_FLAG(ROW, passed, "passed", NULL, NULL),
    MT_INTEGER(ROW, failed, "failed", NULL, "the number of criteria that did not pass"),
    MT_ROWS(ROW, criteria, count, "criteria", &mt_criterion_type, "in the order of the options"),
    MT_ROW_OR_NULL(ROW, leaks, "leaks", &leaks_type, "of `--no-leaks`; otherwise null"),
    MT_ROW_OR_NULL(ROW, against, "against", &against_type, "the run that `--against` names, or null"),
    MT_TEXT(ROW, differences_shown, "differences", NULL, "the settings in which the two runs differ; empty if none"),
    MT_VALUE(ROW, next, "next", NULL, "a list of commands to ask next"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_check_type = MT_ROW_TYPE(ROW, check_fields);
#undef ROW

static struct mt_criterion_row criterion_row_of(const struct mt_check *check, const struct mt_criterion *criterion)
{
    bool has_bytes = criterion->kind != MT_CRITERION_ENDED;
    assert(!has_bytes || criterion->passed == (criterion->value_bytes <= criterion->bound_bytes));
    uint64_t over = criterion->passed ? 0 : criterion->value_bytes - criterion->bound_bytes;
    struct mt_criterion_row row = {.criterion = *criterion,
                                   .value_bytes = has_bytes ? (int64_t)criterion->value_bytes : -1,
                                   .bound_bytes = has_bytes ? (int64_t)criterion->bound_bytes : -1,
                                   .over_bytes = has_bytes ? (int64_t)over : -1,
                                   .against_bytes = criterion->is_relative ? (int64_t)criterion->against_bytes : -1};
    add_name(check, criterion, &row.name);
    add_finding(check, criterion, &row.finding);
    return row;
}

mt_status mt_check_row_create(const struct mt_check *check, const struct mt_check_place *place,
                              struct mt_check_row *out)
{
    *out = (struct mt_check_row){.check = check,
                                 .passed = check->failed == 0,
                                 .failed = (int64_t)check->failed,
                                 .criteria = mt_host_alloc((check->count + 1) * sizeof *out->criteria),
                                 .count = check->count,
                                 .leaks = check->leaks.last_event != 0 ? &check->leaks : NULL,
                                 .next = json_array()};
    if (check->against != NULL) {
        out->against_row = (struct mt_check_against_row){
            *check->against->run,       check->against->file, mt_budget_tolerance(check->budget),
            check->budget->floor_bytes, check->growths,       check->growth_count};
        out->against = &out->against_row;
    }
    for (size_t i = 0; i < check->count; i++)
        out->criteria[i] = criterion_row_of(check, &check->criteria[i]);
    add_hints(check, place, &out->hints);
    for (size_t i = 0; i < out->hints.count; i++)
        json_array_append_new(out->next, mt_json_text(mt_text_get(&out->hints.items[i].command)));
    mt_status status = add_differences(check, &out->differences);
    out->differences_shown = mt_text_get(&out->differences);
    return status;
}

void mt_check_row_release(struct mt_check_row *row)
{
    mt_rows_release(&mt_criterion_type, row->criteria, row->count);
    for (size_t i = 0; i < row->hints.count; i++)
        mt_text_release(&row->hints.items[i].command);
    mt_text_release(&row->differences);
    json_decref(row->next);
}

json_t *mt_check_json(const struct mt_check_row *row)
{
    json_t *object = mt_answer_begin("check", row->check->question->run);
    mt_row_add_json(&mt_check_type, row, object);
    return object;
}

#define ROW struct mt_check_trial_row
static const struct mt_field trial_fields[] = {
    MT_OWNED(ROW, criterion, "criterion", "criterion", "that was tried"),
    MT_OWNED(ROW, expected, "expected", "must do", "what the check must do"),
    MT_FLAG(ROW, held, "held", NULL, "true if it does"),
    MT_SHOWN(TEXT, const char *, ROW, verdict, "verdict", ""),
    MT_FIELDS_END,
};
const struct mt_row_type mt_check_trial_type = MT_ROW_TYPE(ROW, trial_fields);
#undef ROW

#define ROW struct mt_check_trials_row
static const struct mt_field trials_fields[] = {
    MT_FLAG(ROW, works, "works", NULL, "true if every criterion does what it must"),
    MT_ROWS(ROW, rows, count, "rows", &mt_check_trial_type, NULL),
    MT_FIELDS_END,
};
const struct mt_row_type mt_check_trials_type = MT_ROW_TYPE(ROW, trials_fields);
#undef ROW

/* Adds the name of the criterion that was tried: "max-allocated", "no-leaks". */
static void add_tried(const struct mt_check_trial *trial, struct mt_text *out)
{
    mt_text_add(out, "%s", trial->is_relative ? "against" : criterion_names[trial->kind]);
    if (trial->kind == MT_CRITERION_PEAK && !trial->is_relative)
        mt_text_add(out, "%s", mt_measure_name(trial->measure));
}

/* Adds what the check must do of the budget. */
static void add_expected(const struct mt_check_trial *trial, struct mt_text *out)
{
    if (trial->is_relative)
        mt_text_add(out, "lets a run like the other through, and stops one with more");
    else if (trial->kind == MT_CRITERION_ENDED)
        mt_text_add(out, "stops a run that ended out of memory within its bounds");
    else if (trial->kind == MT_CRITERION_LEAKS)
        mt_text_add(out, "lets the clean run through, and stops the injected leak of %s a step", MT_SIZE(trial->bytes));
    else
        mt_text_add(out, "lets %s through, and stops at a bound of one byte less", MT_SIZE(trial->bytes));
}

void mt_check_trials_row_create(const struct mt_check_trials *trials, struct mt_check_trials_row *out)
{
    assert(trials->count <= MT_MOST_CHECK_TRIALS && trials->broken <= trials->count);
    *out = (struct mt_check_trials_row){.works = trials->broken == 0,
                                        .rows = mt_host_alloc(MT_MOST_CHECK_TRIALS * sizeof *out->rows),
                                        .count = trials->count};
    for (size_t i = 0; i < trials->count; i++) {
        struct mt_check_trial_row *row = &out->rows[i];
        row->held = trials->items[i].held;
        row->verdict = row->held ? "does" : "DOES NOT";
        add_tried(&trials->items[i], &row->criterion);
        add_expected(&trials->items[i], &row->expected);
    }
}

void mt_check_trials_row_release(struct mt_check_trials_row *row)
{
    mt_rows_release(&mt_check_trial_type, row->rows, row->count);
}
