#include "analysis/scaled_run.h"

#include "analysis/changed_run.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Returns the steps that the input has; 1 for none. */
static double count_steps(const struct mt_advice_input *input)
{
    double count = 0;
    for (size_t i = 0; i < input->mark_count; i++)
        count += input->marks[i].kind == MT_EVENT_STEP_BEGIN;
    return count > 0 ? count : 1;
}

/* True if the label is of a time before or between steps: then its blocks are not of each step. */
static bool is_lasting(const struct mt_label_row *label)
{
    return strcmp(label->phase, mt_phase_name(MT_PHASE_INIT)) == 0 ||
           strcmp(label->role, mt_role_name(MT_ROLE_PARAMETER)) == 0 ||
           strcmp(label->role, mt_role_name(MT_ROLE_OPTIMIZER_STATE)) == 0;
}

struct mt_label_bytes mt_label_bytes_create(const struct mt_advice_input *input)
{
    struct mt_label_bytes sums = {input->labels, mt_host_alloc((input->label_count + 1) * sizeof *sums.bytes),
                                  input->label_count};
    double steps = count_steps(input);
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        sums.bytes[block->label] +=
            (double)block->requested_bytes / (is_lasting(&input->labels[block->label]) ? 1 : steps);
    }
    return sums;
}

void mt_label_bytes_release(struct mt_label_bytes *sums)
{
    free(sums->bytes);
    *sums = (struct mt_label_bytes){0};
}

static bool are_of_one_kind(const struct mt_label_row *a, const struct mt_label_row *b)
{
    return strcmp(a->category, b->category) == 0 && strcmp(a->role, b->role) == 0 && strcmp(a->phase, b->phase) == 0;
}

/* Returns the bytes that blocks of the label's kind take. */
static double bytes_of_kind(const struct mt_label_bytes *sums, const struct mt_label_row *label)
{
    double bytes = 0;
    for (size_t i = 0; i < sums->count; i++)
        if (sums->bytes[i] > 0 && are_of_one_kind(&sums->labels[i], label))
            bytes += sums->bytes[i];
    return bytes;
}

/* True if, by assumption, blocks of the label grow with the batch. */
static bool is_assumed_to_grow(const struct mt_label_row *label)
{
    static const mt_phase phases[] = {MT_PHASE_FORWARD, MT_PHASE_LOSS, MT_PHASE_BACKWARD};
    bool is_of_pass = false;
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++)
        is_of_pass |= strcmp(label->phase, mt_phase_name(phases[i])) == 0;
    return strcmp(label->role, mt_role_name(MT_ROLE_INPUT)) == 0 ||
           strcmp(label->role, mt_role_name(MT_ROLE_ACTIVATION)) == 0 ||
           (is_of_pass && (strcmp(label->role, mt_role_name(MT_ROLE_TEMPORARY)) == 0 ||
                           strcmp(label->role, mt_role_name(MT_ROLE_OTHER)) == 0));
}

/* Returns the size at `batch` of what has one byte at the run's own. */
static double factor_of(const struct mt_scaling *scaling, const struct mt_label_bytes *own,
                        const struct mt_label_bytes *other, const struct mt_label_row *label, int64_t batch)
{
    if (other->bytes == NULL)
        return is_assumed_to_grow(label) ? (double)batch / (double)scaling->batch : 1;
    double here = bytes_of_kind(own, label), there = bytes_of_kind(other, label);
    if (here <= 0 || there <= 0)
        return 1;
    double slope = (there - here) / (double)(scaling->other_batch - scaling->batch);
    double factor = 1 + slope * (double)(batch - scaling->batch) / here;
    return factor > 0 ? factor : 0;
}

/* Returns the factor of each label. The caller frees them. */
static double *list_factors(const struct mt_scaling *scaling, int64_t batch)
{
    const struct mt_advice_input *input = scaling->input;
    struct mt_label_bytes own = mt_label_bytes_create(input), other = {0};
    if (scaling->other != NULL)
        other = mt_label_bytes_create(scaling->other);
    double *factors = mt_host_alloc((input->label_count + 1) * sizeof *factors);
    for (size_t i = 0; i < input->label_count; i++)
        if (own.bytes[i] > 0)
            factors[i] = factor_of(scaling, &own, &other, &input->labels[i], batch);
    mt_label_bytes_release(&own);
    mt_label_bytes_release(&other);
    return factors;
}

/* Returns a size that no device has, if the product exceeds that. */
static uint64_t scale(uint64_t bytes, double factor)
{
    static const double MOST_BYTES = (double)(UINT64_C(1) << 50);
    double scaled = (double)bytes * factor;
    return scaled < MOST_BYTES ? (uint64_t)(scaled + 0.5) : (uint64_t)MOST_BYTES;
}

mt_status mt_scaled_replay(const struct mt_scaling *scaling, int64_t batch, struct mt_replay_result *out)
{
    struct mt_window window;
    struct mt_changed_run changed;
    assert(batch > 0 && scaling->batch > 0 && (scaling->other == NULL || scaling->other_batch != scaling->batch));
    double *factors = list_factors(scaling, batch);
    mt_window_create(scaling->input, &window);
    mt_changed_run_create(&window, &changed);
    for (size_t i = 0; i < scaling->input->block_count; i++) {
        const struct mt_block_row *block = &scaling->input->blocks[i];
        if (factors[block->label] != 1)
            mt_changed_run_resize(&changed, i, scale(block->requested_bytes, factors[block->label]));
    }
    mt_status status = mt_changed_run_replay(&changed, &scaling->input->settings, out);
    mt_changed_run_release(&changed);
    mt_window_release(&window);
    free(factors);
    return status;
}

mt_status mt_scaled_find_largest(const struct mt_scaling *scaling, int64_t *out)
{
    struct mt_replay_result replay = {.fits = true};
    int64_t low = 0, high = scaling->batch, most = scaling->batch * MT_MOST_BATCHES;
    MT_TRY(mt_scaled_replay(scaling, high, &replay));
    while (replay.fits && high < most) {
        low = high;
        high *= 2;
        MT_TRY(mt_scaled_replay(scaling, high, &replay));
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        MT_TRY(mt_scaled_replay(scaling, middle, &replay));
        *(replay.fits ? &low : &high) = middle;
    }
    *out = low;
    return MT_OK;
}
