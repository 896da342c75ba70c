#include "cli/explain/diff_answer.h"

#include "base/memory.h"
#include "base/order.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Leaves nothing to close if it fails. */
static mt_status open_side(const char *trace, const char *which, struct mt_question *out)
{
    mt_status status = mt_question_open_named(trace, which, out);
    if (status != MT_OK)
        *out = (struct mt_question){0};
    return status;
}

static mt_status fail_no_pair(const struct mt_trace *trace)
{
    size_t count;
    mt_trace_runs(trace, &count);
    return mt_fail(MT_USAGE,
                   "no two finished runs of this trace, which has %zu, differ in one setting only: repeat one with one "
                   "option changed, such as --autocast bf16, or name two: memtrace diff A B (memtrace runs lists them)",
                   count);
}

/* Opens the two runs that are compared if none is named. */
static mt_status open_pair(const char *trace, struct mt_question question[])
{
    struct mt_trace *opened;
    const struct mt_run *runs[MT_SIDE_COUNT];
    char numbers[MT_SIDE_COUNT][MT_BYTES_TEXT];
    mt_status status = mt_trace_open_to_ask(trace, &opened);
    if (status != MT_OK)
        return status;
    status = mt_diff_pair_find(opened, &runs[MT_SIDE_A], &runs[MT_SIDE_B]);
    if (status == MT_OK && runs[MT_SIDE_A] == NULL)
        status = fail_no_pair(opened);
    for (int side = 0; side < MT_SIDE_COUNT && status == MT_OK; side++)
        snprintf(numbers[side], sizeof numbers[side], "%" PRId64, runs[side]->id);
    mt_trace_close(opened);
    for (int side = 0; side < MT_SIDE_COUNT && status == MT_OK; side++)
        status = open_side(trace, numbers[side], &question[side]);
    return status;
}

static mt_status open_named(const char *trace, const char *a, const char *b, struct mt_question question[])
{
    if (a == NULL || b == NULL)
        return mt_fail(MT_USAGE,
                       "%s is compared with what? Name two runs, memtrace diff A B, or none for the newest "
                       "two that differ in one setting",
                       a != NULL ? a : b);
    mt_status status = open_side(trace, a, &question[MT_SIDE_A]);
    return status == MT_OK ? open_side(trace, b, &question[MT_SIDE_B]) : status;
}

static struct mt_text *add_doubt(struct mt_diff_answer *answer)
{
    return &answer->doubts[answer->doubt_count++];
}

static bool is_cut_short(const struct mt_run *run)
{
    return mt_run_is(run, MT_RUN_OOM) || mt_run_is(run, MT_RUN_FAILED);
}

static void doubt_ends(struct mt_diff_answer *answer)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_run *run = answer->question[side].run;
        if (is_cut_short(run))
            mt_text_add(add_doubt(answer), "run %" PRId64 " %s: its peaks are those until then", run->id,
                        mt_run_state_words(run->state));
    }
    const struct mt_run *a = answer->question[MT_SIDE_A].run, *b = answer->question[MT_SIDE_B].run;
    if (answer->doubt_count == 0 && a->steps != b->steps && (a->steps < 2 || b->steps < 2))
        mt_text_add(add_doubt(answer),
                    "%" PRId64 " and %" PRId64
                    " steps: a first step has no gradients and no optimizer state before its "
                    "backward; repeat the shorter run with --steps 2",
                    a->steps, b->steps);
}

/* Runs that are hard to compare are compared all the same, with notes: the bytes add up anyway. */
static void find_doubts(struct mt_diff_answer *answer)
{
    const struct mt_settings_difference *changes = &answer->changes;
    doubt_ends(answer);
    if (changes->different_count > 1)
        mt_text_add(add_doubt(answer), "the runs differ in %zu settings, so no cause can be put down to one of them",
                    changes->different_count);
    if (changes->unknown_count == 0)
        return;
    struct mt_text *unknown = add_doubt(answer);
    mt_settings_add_unknown(changes, answer->question[MT_SIDE_A].run, answer->question[MT_SIDE_B].run, unknown);
    mt_text_add(unknown, ", so the two may differ in more than is told");
}

static struct mt_diff_length *length_of(struct mt_diff_answer *answer, int64_t seq)
{
    for (size_t i = 0; i < answer->length_count; i++)
        if (answer->lengths[i].seq == seq)
            return &answer->lengths[i];
    answer->lengths = mt_host_resize(answer->lengths, answer->length_count + 1, sizeof *answer->lengths);
    answer->lengths[answer->length_count] = (struct mt_diff_length){.seq = seq};
    return &answer->lengths[answer->length_count++];
}

/* Enters the run for its length, if it agrees with the side's in all else. Later ones replace earlier ones. */
static mt_status add_length(struct mt_diff_answer *answer, int side, const struct mt_run *run)
{
    struct mt_trace *trace = answer->question[side].trace;
    static const char *const but[] = {"seq", NULL};
    struct mt_settings settings;
    mt_status status = mt_settings_load(trace, run, &settings);
    int64_t seq = strtoll(mt_settings_value(&settings, "seq"), NULL, 10);
    if (status == MT_OK && seq > 0 &&
        mt_settings_agree(&answer->settings[side], &settings, MT_SETTINGS_OF_MEMORY, but)) {
        struct mt_peak_row peak;
        status = mt_trace_peak(trace, run, MT_MEASURE_RESERVED, &peak);
        struct mt_diff_length *length = length_of(answer, seq);
        length->run[side] = run;
        length->reserved_bytes[side] = peak.bytes;
        length->published[side] = mt_published_is_comparable(&settings) ? mt_published_find(&settings) : NULL;
        mt_peak_row_release(&peak);
    }
    mt_settings_release(&settings);
    return status;
}

static int compare_lengths(const void *left, const void *right)
{
    return MT_COMPARE(((const struct mt_diff_length *)left)->seq, ((const struct mt_diff_length *)right)->seq);
}

/* Keeps the lengths that both sides have. */
static void keep_whole_lengths(struct mt_diff_answer *answer)
{
    size_t kept = 0;
    for (size_t i = 0; i < answer->length_count; i++)
        if (answer->lengths[i].run[MT_SIDE_A] != NULL && answer->lengths[i].run[MT_SIDE_B] != NULL)
            answer->lengths[kept++] = answer->lengths[i];
    answer->length_count = kept;
    if (kept > 1)
        qsort(answer->lengths, kept, sizeof *answer->lengths, compare_lengths);
}

static bool differ_in_length(const struct mt_settings_difference *changes)
{
    for (size_t i = 0; i < changes->different_count; i++)
        if (strcmp(changes->different[i].name, "seq") == 0)
            return true;
    return false;
}

static mt_status load_lengths(struct mt_diff_answer *answer)
{
    mt_status status = MT_OK;
    if (differ_in_length(&answer->changes))
        return MT_OK;
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        size_t count;
        const struct mt_run *runs = mt_trace_runs(answer->question[side].trace, &count);
        for (size_t i = 0; i < count && status == MT_OK; i++)
            if (mt_run_is(&runs[i], MT_RUN_DONE))
                status = add_length(answer, side, &runs[i]);
    }
    keep_whole_lengths(answer);
    return status;
}

double mt_diff_length_published_gib(const struct mt_diff_length *length)
{
    const struct mt_published_cell *a = length->published[MT_SIDE_A], *b = length->published[MT_SIDE_B];
    if (a == NULL || b == NULL || a == b)
        return NAN;
    bool is_same_mode = strcmp(a->mode, b->mode) == 0;
    if (is_same_mode && strcmp(a->autocast, b->autocast) != 0)
        return isnan(b->autocast_gib) ? -a->autocast_gib : b->autocast_gib;
    return b->reserved_gib - a->reserved_gib;
}

bool mt_diff_length_measured(const struct mt_diff_length *length, int64_t *out_bytes)
{
    const struct mt_published_cell *a = length->published[MT_SIDE_A], *b = length->published[MT_SIDE_B];
    if (a == NULL || b == NULL || a == b)
        return false;
    *out_bytes = (int64_t)(b->measured_reserved_bytes - a->measured_reserved_bytes);
    return true;
}

static mt_status load(struct mt_diff_answer *answer)
{
    mt_status status = MT_OK;
    for (int side = 0; side < MT_SIDE_COUNT && status == MT_OK; side++) {
        const struct mt_question *question = &answer->question[side];
        status = mt_settings_load(question->trace, question->run, &answer->settings[side]);
    }
    if (status == MT_OK)
        status = mt_trace_diff(&answer->question[MT_SIDE_A], &answer->question[MT_SIDE_B], &answer->diff);
    if (status == MT_USAGE)
        return mt_fail_hint(status, "choose another one (memtrace runs lists them), or repeat it");
    if (status == MT_BAD_TRACE)
        return mt_fail_hint(status, "memtrace run records it anew");
    if (status != MT_OK)
        return status;
    mt_settings_compare(&answer->settings[MT_SIDE_A], &answer->settings[MT_SIDE_B], MT_SETTINGS_OF_MEMORY,
                        &answer->changes);
    status = mt_diff_categories(&answer->question[MT_SIDE_A], &answer->question[MT_SIDE_B], &answer->categories,
                                &answer->category_count);
    return status == MT_OK ? load_lengths(answer) : status;
}

mt_status mt_diff_answer_load(const char *trace, const char *a, const char *b, struct mt_diff_answer *out)
{
    *out = (struct mt_diff_answer){0};
    mt_status status =
        a == NULL && b == NULL ? open_pair(trace, out->question) : open_named(trace, a, b, out->question);
    if (status == MT_OK)
        status = load(out);
    if (status == MT_OK)
        find_doubts(out);
    return status;
}

void mt_diff_answer_release(struct mt_diff_answer *answer)
{
    mt_diff_release(&answer->diff);
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        mt_settings_release(&answer->settings[side]);
        mt_question_close(&answer->question[side]);
    }
    for (size_t i = 0; i < answer->doubt_count; i++)
        mt_text_release(&answer->doubts[i]);
    free(answer->categories);
    free(answer->lengths);
    *answer = (struct mt_diff_answer){0};
}
