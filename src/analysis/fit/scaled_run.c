#include "analysis/fit/scaled_run.h"

#include "analysis/changed_run.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number of the input's steps, at least 1. */
static double count_steps(const struct mt_advice_input *input)
{
    double count = 0;
    for (size_t i = 0; i < input->mark_count; i++)
        count += input->marks[i].kind == MT_EVENT_STEP_BEGIN;
    return count > 0 ? count : 1;
}

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* True if the label has one of the roles. */
static bool has_role(const struct mt_label_row *label, const mt_role *roles, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(label->role, mt_role_name(roles[i])) == 0)
            return true;
    return false;
}

/* True if blocks with the label outlive a step, so that steps do not allocate them again. */
static bool is_lasting(const struct mt_label_row *label)
{
    static const mt_role lasting[] = {MT_ROLE_PARAMETER, MT_ROLE_OPTIMIZER_STATE, MT_ROLE_BUFFER, MT_ROLE_KEPT};
    return strcmp(label->phase, mt_phase_name(MT_PHASE_INIT)) == 0 || has_role(label, lasting, LENGTH(lasting));
}

/* The bytes of a kind's blocks: per step, or once if they outlive a step. */
struct kind {
    const struct mt_label_row *label; /* one of the kind's */
    double bytes;
};

struct kinds {
    struct kind *items;
    size_t count;
};

static bool are_of_one_kind(const struct mt_label_row *a, const struct mt_label_row *b)
{
    return strcmp(a->category, b->category) == 0 && strcmp(a->role, b->role) == 0 && strcmp(a->phase, b->phase) == 0;
}

/* Returns the label's kind; NULL if it has no blocks. */
static struct kind *find_kind(const struct kinds *kinds, const struct mt_label_row *label)
{
    for (size_t i = 0; i < kinds->count; i++)
        if (are_of_one_kind(kinds->items[i].label, label))
            return &kinds->items[i];
    return NULL;
}

static void add_bytes(struct kinds *kinds, const struct mt_label_row *label, double bytes)
{
    struct kind *kind = find_kind(kinds, label);
    if (kind != NULL)
        kind->bytes += bytes;
    else
        *MT_HOST_ADD(kinds->items, kinds->count) = (struct kind){label, bytes};
}

/* Returns the kinds of an input. The caller frees its items. */
static struct kinds list_kinds(const struct mt_advice_input *input)
{
    double *bytes = mt_host_alloc((input->label_count + 1) * sizeof *bytes), steps = count_steps(input);
    struct kinds kinds = {0};
    for (size_t i = 0; i < input->block_count; i++)
        bytes[input->blocks[i].label] += (double)input->blocks[i].requested_bytes;
    for (size_t i = 0; i < input->label_count; i++)
        if (bytes[i] > 0)
            add_bytes(&kinds, &input->labels[i], bytes[i] / (is_lasting(&input->labels[i]) ? 1 : steps));
    free(bytes);
    return kinds;
}

/* True for labels whose blocks are assumed to grow with the batch. */
static bool is_assumed_to_grow(const struct mt_label_row *label)
{
    static const mt_phase phases[] = {MT_PHASE_FORWARD, MT_PHASE_LOSS, MT_PHASE_BACKWARD};
    static const mt_role growing[] = {MT_ROLE_INPUT, MT_ROLE_ACTIVATION, MT_ROLE_KEY_VALUE_CACHE};
    static const mt_role growing_in_pass[] = {MT_ROLE_TEMPORARY, MT_ROLE_OTHER, MT_ROLE_UNKNOWN};
    bool is_of_pass = false;
    for (size_t i = 0; i < LENGTH(phases); i++)
        is_of_pass |= strcmp(label->phase, mt_phase_name(phases[i])) == 0;
    return has_role(label, growing, LENGTH(growing)) ||
           (is_of_pass && has_role(label, growing_in_pass, LENGTH(growing_in_pass)));
}

/* Returns the growth of the label's kind from two runs; 0 if only one run has the kind. */
static double growth_by(const struct kinds *own, const struct kinds *other, const struct mt_label_row *label,
                        int64_t difference)
{
    const struct kind *here = find_kind(own, label), *there = find_kind(other, label);
    if (here == NULL || there == NULL)
        return 0;
    return (there->bytes - here->bytes) / (double)difference / here->bytes;
}

struct mt_scaling mt_scaling_create(const struct mt_advice_input *input, int64_t batch,
                                    const struct mt_advice_input *other, int64_t other_batch)
{
    struct mt_scaling scaling = {input, batch, mt_host_alloc((input->label_count + 1) * sizeof(double))};
    struct kinds here = list_kinds(input), there = {0};
    assert(batch > 0 && (other == NULL || other_batch != batch));
    if (other != NULL)
        there = list_kinds(other);
    for (size_t i = 0; i < input->label_count; i++) {
        const struct mt_label_row *label = &input->labels[i];
        if (other != NULL)
            scaling.growths[i] = growth_by(&here, &there, label, other_batch - batch);
        else if (is_assumed_to_grow(label))
            scaling.growths[i] = 1 / (double)batch;
    }
    free(here.items);
    free(there.items);
    return scaling;
}

void mt_scaling_release(struct mt_scaling *scaling)
{
    free(scaling->growths);
    *scaling = (struct mt_scaling){0};
}

/* Multiplies, but returns at most a size that no device has. */
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
    assert(batch > 0);
    mt_window_create(scaling->input, &window);
    mt_changed_run_create(&window, &changed);
    for (size_t i = 0; i < scaling->input->block_count; i++) {
        const struct mt_block_row *block = &scaling->input->blocks[i];
        double factor = 1 + scaling->growths[block->label] * (double)(batch - scaling->batch);
        if (factor != 1)
            mt_changed_run_resize(&changed, i, scale(block->requested_bytes, factor > 0 ? factor : 0));
    }
    mt_status status = mt_changed_run_replay(&changed, &scaling->input->settings, out);
    mt_changed_run_release(&changed);
    mt_window_release(&window);
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
