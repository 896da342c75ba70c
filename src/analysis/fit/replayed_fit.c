#include "analysis/fit/replayed_fit.h"

#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

mt_status mt_run_own_peaks(const struct mt_question *question, struct mt_replay_result *out)
{
    uint64_t bytes[MT_MEASURE_COUNT];
    for (int i = 0; i < MT_MEASURE_COUNT; i++) {
        struct mt_peak_row peak;
        mt_status status = mt_trace_peak(question->trace, question->run, (mt_measure)i, &peak);
        bytes[i] = peak.bytes;
        mt_peak_row_release(&peak);
        if (status != MT_OK)
            return status;
    }
    *out = (struct mt_replay_result){.requested_bytes = bytes[MT_MEASURE_REQUESTED],
                                     .allocated_bytes = bytes[MT_MEASURE_ALLOCATED],
                                     .reserved_bytes = bytes[MT_MEASURE_RESERVED],
                                     .fits = !mt_run_is(question->run, MT_RUN_OOM)};
    return MT_OK;
}

static mt_status load(const struct mt_question *question, const struct mt_alloc_settings *alloc,
                      struct mt_advice_material *out)
{
    if (question->run->event_count == 0)
        return mt_fail(MT_USAGE, "run %" PRId64 " has no events: nothing of it can be replayed", question->run->id);
    MT_TRY(mt_advice_material_load(question, alloc, out));
    if (alloc != NULL || out->input.program.kind != MT_PROGRAM_WATCHED)
        return MT_OK;
    return mt_fail(MT_USAGE, "run %" PRId64 " does not say which allocator it had, so its memory can't be replayed",
                   question->run->id);
}

static bool are_alike(const struct mt_program_change *a, const struct mt_program_change *b)
{
    return a->kind == b->kind && a->optimizer == b->optimizer && strcmp(a->place, b->place) == 0 &&
           mt_alloc_settings_are_equal(&a->alloc, &b->alloc);
}

/* True if the change fits the device: by its peak, or in the replay there, where the allocator frees cached
 * segments. */
static bool change_fits(const struct mt_program_change *change, const struct mt_program_changes *there,
                        uint64_t capacity_bytes)
{
    if (change->replay.reserved_bytes <= capacity_bytes)
        return true;
    for (size_t i = 0; i < there->count; i++)
        if (are_alike(change, &there->items[i]))
            return there->items[i].replay.fits;
    return false;
}

mt_status mt_replayed_changes_find(const struct mt_advice_input *run, uint64_t capacity_bytes,
                                   struct mt_program_changes *out, bool *out_fits)
{
    struct mt_advice_input input = *run;
    struct mt_program_changes there;
    *out_fits = false;
    input.capacity_bytes = INT64_MAX;
    MT_TRY(mt_program_changes_create(&input, out));
    input.capacity_bytes = capacity_bytes;
    mt_status status = mt_program_changes_create(&input, &there);
    *out_fits = status == MT_OK && there.as_it_was.fits;
    for (size_t i = 0; i < out->count && status == MT_OK; i++)
        out->items[i].replay.fits = change_fits(&out->items[i], &there, capacity_bytes);
    mt_program_changes_release(&there);
    return status;
}

const char *mt_card_for_peak(uint64_t reserved_bytes)
{
    const char *found = NULL;
    uint64_t least_bytes = UINT64_MAX;
    for (const char *const *name = mt_card_names(); *name != NULL; name++) {
        struct mt_card card;
        (void)mt_card_find(*name, &card);
        uint64_t bytes = mt_card_usable_bytes(&card);
        if (bytes < reserved_bytes || bytes >= least_bytes)
            continue;
        least_bytes = bytes;
        found = *name;
    }
    return found;
}

/* Replays the run with the other run's batch, to compare the result with the other run's actual peaks. */
static mt_status check_scaling(const struct mt_replayed_question *question, const struct mt_scaling *scaling,
                               struct mt_replayed_fit *out)
{
    struct mt_advice_input input = *scaling->input;
    struct mt_scaling unlimited = *scaling;
    input.capacity_bytes = INT64_MAX;
    unlimited.input = &input;
    MT_TRY(mt_run_own_peaks(question->other, &out->other_had));
    return mt_scaled_replay(&unlimited, question->other_batch, &out->checked);
}

static mt_status find_batch(const struct mt_replayed_question *question, struct mt_replayed_fit *out)
{
    struct mt_advice_input input = out->material.input;
    input.capacity_bytes = question->capacity_bytes;
    out->knows_batch = question->batch > 0;
    out->is_assumed = question->other == NULL;
    struct mt_scaling scaling = mt_scaling_create(&input, out->knows_batch ? question->batch : MT_BATCH_UNKNOWN,
                                                  out->is_assumed ? NULL : &out->other.input, question->other_batch);
    mt_status status = out->is_assumed ? MT_OK : check_scaling(question, &scaling, out);
    MT_THEN(status, mt_scaled_find_largest(&scaling, &out->largest_batch));
    out->is_largest_of_all = out->largest_batch >= scaling.batch * MT_MOST_BATCHES / 2;
    mt_scaling_release(&scaling);
    return status;
}

mt_status mt_replayed_fit_find(const struct mt_replayed_question *question, struct mt_replayed_fit *out)
{
    assert(question->other == NULL || (question->batch > 0 && question->other_batch > 0));
    *out = (struct mt_replayed_fit){0};
    MT_TRY(load(question->run, question->alloc, &out->material));
    if (question->other != NULL)
        MT_TRY(load(question->other, question->alloc, &out->other));
    MT_TRY(mt_run_own_peaks(question->run, &out->had));
    MT_TRY(mt_replayed_changes_find(&out->material.input, question->capacity_bytes, &out->unlimited, &out->fits));
    out->smallest_card = out->had.fits ? mt_card_for_peak(out->unlimited.as_it_was.reserved_bytes) : NULL;
    return find_batch(question, out);
}

void mt_replayed_fit_release(struct mt_replayed_fit *fit)
{
    mt_advice_material_release(&fit->material);
    mt_advice_material_release(&fit->other);
    mt_program_changes_release(&fit->unlimited);
    *fit = (struct mt_replayed_fit){0};
}
