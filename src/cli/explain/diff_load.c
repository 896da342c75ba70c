#include "cli/explain/diff_load.h"

#include "base/memory.h"
#include "base/order.h"
#include "cli/output/output.h"
#include "study/published.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct mt_text *add_doubt(struct mt_diff_answer *answer)
{
    assert(answer->doubt_count < MT_MOST_DIFF_DOUBTS);
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

/* Finds what makes the runs hard to compare. They are compared all the same: the bytes add up anyway. */
static void find_doubts(struct mt_diff_answer *answer)
{
    const struct mt_settings_difference *changes = &answer->changes;
    assert(answer->doubt_count == 0);
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

/* Runs of both sides at one length, with the published cell of each. */
struct length {
    struct mt_diff_length row;
    const struct mt_published_cell *cell[MT_SIDE_COUNT]; /* NULL: none that the run is comparable with */
};

struct lengths {
    struct length *items;
    size_t count;
};

static struct length *length_of(struct lengths *lengths, int64_t seq)
{
    for (size_t i = 0; i < lengths->count; i++)
        if (lengths->items[i].row.seq == seq)
            return &lengths->items[i];
    lengths->items = mt_host_room(lengths->items, lengths->count, sizeof *lengths->items);
    assert(seq > 0);
    lengths->items[lengths->count] = (struct length){.row.seq = seq};
    return &lengths->items[lengths->count++];
}

/* Enters the run for its length, if it agrees with the run of the side in all else. A later one replaces an earlier one. */
static mt_status add_length(const struct mt_diff_answer *answer, int side, const struct mt_run *run,
                            struct lengths *lengths)
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
        struct length *length = length_of(lengths, seq);
        length->row.run[side] = run->id;
        length->row.reserved_bytes[side] = peak.bytes;
        length->cell[side] = mt_published_is_comparable(&settings) ? mt_published_find(&settings) : NULL;
        mt_peak_row_release(&peak);
    }
    mt_settings_release(&settings);
    return status;
}

static int compare_lengths(const void *left, const void *right)
{
    return MT_COMPARE(((const struct length *)left)->row.seq, ((const struct length *)right)->row.seq);
}

/* Returns the published difference of reserved bytes, B less A, in GiB; NAN if none was published. */
static double published_difference(const struct mt_published_cell *a, const struct mt_published_cell *b)
{
    assert(a != b);
    bool is_same_mode = strcmp(a->mode, b->mode) == 0;
    if (is_same_mode && strcmp(a->autocast, b->autocast) != 0)
        return isnan(b->autocast_gib) ? -a->autocast_gib : b->autocast_gib;
    return b->reserved_gib - a->reserved_gib;
}

/* Compares the two sides of a length. `out` must stay where it is. */
static void complete_length(const struct length *length, struct mt_diff_length *out)
{
    const struct mt_published_cell *a = length->cell[MT_SIDE_A], *b = length->cell[MT_SIDE_B];
    uint64_t a_bytes = length->row.reserved_bytes[MT_SIDE_A], b_bytes = length->row.reserved_bytes[MT_SIDE_B];
    char text[MT_BYTES_TEXT];
    assert(length->row.run[MT_SIDE_A] != 0 && length->row.run[MT_SIDE_B] != 0);
    *out = length->row;
    out->delta_bytes = (int64_t)(b_bytes - a_bytes);
    out->percent = mt_diff_percent(a_bytes, b_bytes);
    out->published.delta_gib = NAN;
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_published_cell *cell = length->cell[side];
        out->published.gib[side] = cell != NULL ? cell->reserved_gib : NAN;
        out->published.measured_bytes[side] = cell != NULL ? cell->measured_reserved_bytes : 0;
    }
    if (a == NULL || b == NULL || a == b) {
        mt_text_add(&out->measured, "-");
        return;
    }
    out->published.delta_gib = published_difference(a, b);
    out->published.delta_measured_bytes = (int64_t)(b->measured_reserved_bytes - a->measured_reserved_bytes);
    out->of_both = &out->published;
    mt_text_add(&out->measured, "%s", mt_format_difference(out->published.delta_measured_bytes, text));
}

/* Keeps the lengths that both sides have, in ascending order. */
static void keep_whole_lengths(const struct lengths *lengths, struct mt_diff_answer *answer)
{
    if (lengths->count > 1)
        qsort(lengths->items, lengths->count, sizeof *lengths->items, compare_lengths);
    answer->lengths = mt_host_alloc((lengths->count + 1) * sizeof *answer->lengths);
    for (size_t i = 0; i < lengths->count; i++) {
        const struct length *length = &lengths->items[i];
        if (length->row.run[MT_SIDE_A] != 0 && length->row.run[MT_SIDE_B] != 0)
            complete_length(length, &answer->lengths[answer->length_count++]);
    }
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
    struct lengths lengths = {0};
    mt_status status = MT_OK;
    if (differ_in_length(&answer->changes))
        return MT_OK;
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        size_t count;
        const struct mt_run *runs = mt_trace_runs(answer->question[side].trace, &count);
        for (size_t i = 0; i < count && status == MT_OK; i++)
            if (mt_run_is(&runs[i], MT_RUN_DONE))
                status = add_length(answer, side, &runs[i], &lengths);
    }
    keep_whole_lengths(&lengths, answer);
    free(lengths.items);
    return status;
}

/* Loads everything but the doubts. */
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
    if (status == MT_OK && answer->key != MT_NO_GROUPS)
        status = mt_diff_groups(&answer->question[MT_SIDE_A], &answer->question[MT_SIDE_B], (mt_group_key)answer->key,
                                &answer->groups, &answer->group_count);
    return status == MT_OK ? load_lengths(answer) : status;
}

mt_status mt_diff_answer_load(struct mt_diff_answer *answer)
{
    MT_TRY(load(answer));
    find_doubts(answer);
    return MT_OK;
}
