#include "study/diff_lengths.h"

#include "base/memory.h"
#include "base/order.h"
#include "study/published.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs of both sides with one length, and each one's published cell. */
struct length {
    struct mt_diff_length row;
    const struct mt_published_cell *cell[MT_SIDE_COUNT]; /* NULL: none that is comparable with the run */
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

/* Adds the run for its length, if it agrees with the side's run in all other settings. A later run replaces an earlier
 * one. */
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

/* Returns the published difference of reserved bytes, B minus A, in GiB; NAN if none was published. */
static double published_difference(const struct mt_published_cell *a, const struct mt_published_cell *b)
{
    assert(a != b);
    bool is_same_mode = strcmp(a->mode, b->mode) == 0;
    if (is_same_mode && strcmp(a->autocast, b->autocast) != 0)
        return isnan(b->autocast_gib) ? -a->autocast_gib : b->autocast_gib;
    return b->reserved_gib - a->reserved_gib;
}

/* Compares the two sides of a length. `out` must not move. */
static void complete_length(const struct length *length, struct mt_diff_length *out)
{
    const struct mt_published_cell *a = length->cell[MT_SIDE_A], *b = length->cell[MT_SIDE_B];
    uint64_t a_bytes = length->row.reserved_bytes[MT_SIDE_A], b_bytes = length->row.reserved_bytes[MT_SIDE_B];
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
    mt_text_add(&out->measured, "%s", MT_SIZE_DIFFERENCE(out->published.delta_measured_bytes));
}

/* Keeps the lengths with runs on both sides, in ascending order. */
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

mt_status mt_diff_lengths_load(struct mt_diff_answer *answer)
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
