#include "cli/check/check_text.h"

#include "analysis/run_settings.h"
#include "cli/output/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* From here on a percentage tells nobody anything. */
enum { MOST_PERCENT = 1000 };

void mt_check_add_against(const struct mt_check *check, struct mt_text *out)
{
    mt_text_add(out, "run %" PRId64, check->against->run->id);
    if (check->against->file != NULL)
        mt_text_add(out, " of %s", check->against->file);
}

void mt_criterion_add_name(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out)
{
    if (criterion->is_relative) {
        mt_text_add(out, "against ");
        mt_check_add_against(check, out);
        mt_text_add(out, ": ");
    }
    switch (criterion->kind) {
    case MT_CRITERION_ENDED:
        mt_text_add(out, "ended well");
        break;
    case MT_CRITERION_PEAK:
        mt_text_add(out, "%s%s", criterion->is_relative ? "" : "max-", mt_measure_name(criterion->measure));
        break;
    case MT_CRITERION_CATEGORY:
        mt_text_add(out, "%s%s", criterion->is_relative ? "" : "category ", criterion->category);
        break;
    case MT_CRITERION_LARGEST:
        mt_text_add(out, "largest %s", criterion->category);
        break;
    case MT_CRITERION_LEAKS:
        mt_text_add(out, "no-leaks");
        break;
    }
}

static void add_excess(const struct mt_criterion *criterion, struct mt_text *out)
{
    char value[MT_BYTES_TEXT], bound[MT_BYTES_TEXT], excess[MT_BYTES_TEXT];
    uint64_t over = criterion->value_bytes - criterion->bound_bytes;
    mt_text_add(out, "%s, over %s by %s", mt_format_bytes(criterion->value_bytes, value),
                mt_format_bytes(criterion->bound_bytes, bound), mt_format_bytes(over, excess));
    double percent = criterion->bound_bytes > 0 ? (double)over * 100 / (double)criterion->bound_bytes : MOST_PERCENT;
    if (percent < MOST_PERCENT)
        mt_text_add(out, " (%.2f %%)", percent);
}

/* "1.25 KiB a step, 5.00 KiB from the end of step 1 to that of step 4: Loss of sum at model.loss and 2 more kinds". */
static void add_leaks(const struct mt_leaks *leaks, uint64_t bytes, struct mt_text *out)
{
    char a_step[MT_BYTES_TEXT], all[MT_BYTES_TEXT];
    const struct mt_leak_row *first = &leaks->rows[0];
    mt_format_bytes(bytes / (uint64_t)(leaks->last_step - leaks->first_step), a_step);
    mt_text_add(out, "%s a step, %s from the end of step %" PRId64 " to that of step %" PRId64 ": ", a_step,
                mt_format_bytes(bytes, all), leaks->first_step, leaks->last_step);
    mt_text_add(out, "%s of %s at %s", first->category, first->op, first->place[0] != '\0' ? first->place : "no span");
    if (leaks->row_count > 1)
        mt_text_add(out, " and %zu more kind%s", leaks->row_count - 1, leaks->row_count == 2 ? "" : "s");
}

void mt_criterion_add_finding(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out)
{
    char value[MT_BYTES_TEXT], bound[MT_BYTES_TEXT];
    if (criterion->kind == MT_CRITERION_ENDED)
        mt_text_add(out, "it %s%s", mt_run_state_words(check->question->run->state),
                    mt_run_is(check->question->run, MT_RUN_RUNNING) ? ": check it once it has ended" : "");
    else if (criterion->kind == MT_CRITERION_LEAKS && criterion->passed)
        mt_text_add(out, "every step leaves what the one before left");
    else if (criterion->kind == MT_CRITERION_LEAKS)
        add_leaks(&check->leaks, criterion->value_bytes, out);
    else if (criterion->passed)
        mt_text_add(out, "%s of %s", mt_format_bytes(criterion->value_bytes, value),
                    mt_format_bytes(criterion->bound_bytes, bound));
    else
        add_excess(criterion, out);
}

void mt_check_add_run(const struct mt_check *check, struct mt_text *out)
{
    const struct mt_run *run = check->question->run;
    mt_text_add(out, "run %" PRId64, run->id);
    if (run->name != NULL)
        mt_text_add(out, " (%s)", run->name);
}

/* Nobody asked whether it ended well: that counts where it did not. */
static size_t count_told(const struct mt_check *check)
{
    size_t count = 0;
    for (size_t i = 0; i < check->count; i++)
        count += check->criteria[i].kind != MT_CRITERION_ENDED || !check->criteria[i].passed;
    return count;
}

void mt_check_add_verdict(const struct mt_check *check, struct mt_text *out)
{
    size_t count = count_told(check);
    const char *criteria = count == 1 ? "criterion" : "criteria";
    mt_check_add_run(check, out);
    if (check->failed == 0)
        mt_text_add(out, " passes %zu %s", count, criteria);
    else
        mt_text_add(out, " fails %zu of %zu %s", check->failed, count, criteria);
}

/* The share of its bound that a criterion uses; below 0: it bounds no bytes. */
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
    mt_criterion_add_name(check, nearest, out);
    mt_text_add(out, " comes nearest, with ");
    mt_criterion_add_finding(check, nearest, out);
}

mt_status mt_check_add_differences(const struct mt_check *check, struct mt_text *out)
{
    struct mt_settings before = {0}, now = {0};
    struct mt_settings_difference difference;
    if (check->against == NULL)
        return MT_OK;
    mt_status status = mt_settings_load(check->against->trace, check->against->run, &before);
    if (status == MT_OK)
        status = mt_settings_load(check->question->trace, check->question->run, &now);
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

static bool fails(const struct mt_check *check, mt_criterion_kind kind)
{
    for (size_t i = 0; i < check->count; i++)
        if (check->criteria[i].kind == kind && !check->criteria[i].passed && !check->criteria[i].is_relative)
            return true;
    return false;
}

static bool fails_relative(const struct mt_check *check)
{
    for (size_t i = 0; i < check->count; i++)
        if (check->criteria[i].is_relative && !check->criteria[i].passed)
            return true;
    return false;
}

/* Adds a hint if there is room for one, and returns its command, to which the runs are to be added; otherwise NULL. */
static struct mt_text *add_hint(struct mt_check_hints *hints, const char *command, const char *tells)
{
    if (hints->count == MT_MOST_CHECK_HINTS)
        return NULL;
    struct mt_check_hint *hint = &hints->items[hints->count++];
    hint->tells = tells;
    mt_text_add(&hint->command, "memtrace %s", command);
    return &hint->command;
}

static void add_trace(struct mt_text *command, const struct mt_trace_options *options)
{
    if (strcmp(options->trace, MT_DEFAULT_TRACE) == 0)
        return;
    mt_text_add(command, " --trace ");
    mt_text_add_shell_word(command, options->trace);
}

/* A hint about the run that was checked. */
static void hint_run(const struct mt_check *check, const struct mt_trace_options *options, struct mt_check_hints *hints,
                     const char *command, const char *tells)
{
    struct mt_text *text = add_hint(hints, command, tells);
    if (text == NULL)
        return;
    if (options->run != NULL)
        mt_text_add(text, " --run %" PRId64, check->question->run->id);
    add_trace(text, options);
}

static void hint_diff(const struct mt_check *check, const struct mt_trace_options *options,
                      struct mt_check_hints *hints)
{
    struct mt_text *text = add_hint(hints, "diff ", "why it is more than there");
    if (text == NULL)
        return;
    mt_text_add_shell_word(text, check->budget->against);
    mt_text_add(text, " %" PRId64, check->question->run->id);
    add_trace(text, options);
}

void mt_check_hints_create(const struct mt_check *check, const struct mt_trace_options *options,
                           struct mt_check_hints *out)
{
    *out = (struct mt_check_hints){0};
    const struct mt_run *run = check->question->run;
    if (fails(check, MT_CRITERION_ENDED) && mt_run_is(run, MT_RUN_OOM))
        hint_run(check, options, out, "oom", "what was asked for, what was live, and what would have sufficed");
    if (fails_relative(check))
        hint_diff(check, options, out);
    if (fails(check, MT_CRITERION_LEAKS))
        hint_run(check, options, out, "advise", "what steps leave behind, and what else could be spared");
    if (fails(check, MT_CRITERION_PEAK) || fails(check, MT_CRITERION_CATEGORY))
        hint_run(check, options, out, "top --at peak", "the largest blocks at the peak");
    if (fails(check, MT_CRITERION_LARGEST))
        hint_run(check, options, out, "top", "the largest blocks of the run");
    if (fails(check, MT_CRITERION_PEAK))
        hint_run(check, options, out, "peak", "when the peaks were, and what they were made of");
}

void mt_check_hints_release(struct mt_check_hints *hints)
{
    for (size_t i = 0; i < hints->count; i++)
        mt_text_release(&hints->items[i].command);
    *hints = (struct mt_check_hints){0};
}
