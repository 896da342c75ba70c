#include "analysis/advise/observed_casts.h"

#include "base/memory.h"
#include "base/types.h"
#include "trace/query/lookup.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_PART = 20 }; /* of the bytes that are allocated at the moment */

static bool is_half(const struct mt_label_row *label)
{
    return strcmp(label->dtype, mt_dtype_name(MT_BF16)) == 0 || strcmp(label->dtype, mt_dtype_name(MT_F16)) == 0;
}

static bool is_weight_cast(const struct mt_label_row *label)
{
    return mt_label_is_role(label, MT_ROLE_WEIGHT_CAST);
}

/* True for a copy in half precision: of a weight, or of an input or activation that backward reads. */
static bool is_cast(const struct mt_label_row *label)
{
    return is_weight_cast(label) ||
           (mt_label_is_role(label, MT_ROLE_ACTIVATION) && is_half(label) && strcmp(label->op, "aten::_to_copy") == 0);
}

static bool is_saving(const struct mt_label_row *label)
{
    return mt_label_is_role(label, MT_ROLE_ACTIVATION) && is_half(label) && !is_cast(label);
}

/* Finds the end of the first model's call in the step of the peak, when backward's inputs are live; 0: there is
 * none. */
static mt_status find_end_of_forward(const struct mt_question *question, const struct mt_peak_row *peak,
                                     int64_t *out_event)
{
    int64_t first, last;
    *out_event = 0;
    if (peak->event == 0 || peak->step == MT_STEP_BEFORE)
        return MT_OK;
    MT_TRY(mt_trace_step_events(question->trace, question->run, peak->step, &first, &last));
    MT_TRY(mt_trace_next_event(question->trace, question->run, first, MT_EVENT_PHASE, MT_PHASE_LOSS, out_event));
    *out_event = *out_event <= last ? *out_event : 0;
    return MT_OK;
}

/* Finds the end of the next backward; 0: there is none. */
static mt_status find_end_of_backward(const struct mt_question *question, int64_t forward, int64_t *out_event)
{
    int64_t backward;
    *out_event = 0;
    MT_TRY(mt_trace_next_event(question->trace, question->run, forward, MT_EVENT_PHASE, MT_PHASE_BACKWARD, &backward));
    if (backward == 0)
        return MT_OK;
    return mt_trace_next_event(question->trace, question->run, backward + 1, MT_EVENT_PHASE, MT_PHASE_COUNT, out_event);
}

/* Sums the copies of weights that are left after backward, which frees all but those in autocast's cache. */
static mt_status sum_cached(const struct mt_question *question, int64_t forward, struct mt_moment_blocks moment,
                            struct mt_block_sum *out)
{
    struct mt_block_row *blocks = NULL;
    int64_t event;
    *out = (struct mt_block_sum){0};
    MT_TRY(find_end_of_backward(question, forward, &event));
    if (event == 0)
        return MT_OK;
    mt_status status = mt_moment_blocks_read(question, event, &blocks, &moment);
    if (status == MT_OK)
        *out = mt_block_sum_of(&moment, is_weight_cast);
    free(blocks);
    return status;
}

/* Adds the copies that autocast's cache keeps through backward; or all copies if they take more than the other
 * activations in half precision save, which is as much as those take. */
static mt_status add_casts(const struct mt_question *question, const struct mt_moment_blocks *moment,
                           const struct mt_block_sum *cached, struct mt_observations *out)
{
    const struct mt_block_sum casts = mt_block_sum_of(moment, is_cast);
    const bool is_cached = cached->bytes > casts.bytes / 2;
    struct mt_observed found = {.kind = is_cached ? MT_OBSERVED_CACHED_CASTS : MT_OBSERVED_CASTS,
                                .change =
                                    is_cached ? MT_OBSERVED_CHANGE_END_AUTOCAST : MT_OBSERVED_CHANGE_AUTOCAST_BATCH,
                                .phase = mt_program_phase_name(MT_PROGRAM_PHASE_TRAIN),
                                .bytes = is_cached ? cached->bytes : casts.bytes,
                                .full_at = -1,
                                .file = "",
                                .taken_at = ""};
    if ((!is_cached && casts.bytes <= mt_block_sum_of(moment, is_saving).bytes) ||
        found.bytes < moment->bytes / LEAST_PART)
        return MT_OK;
    MT_TRY(mt_trace_lines(question->trace, question->run, &casts.event, 1, &found.taken_at));
    *MT_HOST_ADD(out->items, out->count) = found;
    return MT_OK;
}

mt_status mt_observations_add_casts(const struct mt_question *question, const struct mt_peak_row *peak,
                                    struct mt_moment_blocks moment, struct mt_observations *out)
{
    struct mt_block_row *blocks = NULL;
    struct mt_block_sum cached;
    int64_t forward = 0;
    if (!mt_moment_has_label(&moment, is_weight_cast))
        return MT_OK;
    MT_TRY(find_end_of_forward(question, peak, &forward));
    if (forward == 0)
        return MT_OK;
    MT_TRY(sum_cached(question, forward, moment, &cached));
    mt_status status = mt_moment_blocks_read(question, forward, &blocks, &moment);
    MT_THEN(status, add_casts(question, &moment, &cached, out));
    free(blocks);
    return status;
}
