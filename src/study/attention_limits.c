#include "study/attention_limits.h"

#include "study/attention_session.h"

static bool is_mostly_square(const struct mt_attention_case *study)
{
    uint64_t square_bytes, bytes = mt_attention_account_bytes(study, &square_bytes);
    return square_bytes > bytes / 2;
}

/* The share of the terms of size T² grows with T. */
int64_t mt_attention_square_from(const struct mt_attention_case *study)
{
    struct mt_attention_case tried = *study;
    int64_t not_yet = 0, from = 1;
    for (tried.seq = from; !is_mostly_square(&tried); tried.seq = from) {
        not_yet = from;
        from *= 2;
        if (from > MT_STUDY_LONGEST)
            return 0;
    }
    while (from - not_yet > 1) {
        tried.seq = not_yet + (from - not_yet) / 2;
        *(is_mostly_square(&tried) ? &from : &not_yet) = tried.seq;
    }
    return from;
}

/* Whether a sequence of so many steps of length fits; what can't even be asked for does not. */
static mt_status try_steps(const struct mt_attention_case *study, const struct mt_alloc_settings *alloc,
                           uint64_t capacity_bytes, int64_t steps, bool *out_fits)
{
    struct mt_attention_session session = {.alloc = *alloc};
    struct mt_attention_case tried = *study;
    struct mt_attention_result result;
    tried.seq = steps * MT_STUDY_LENGTH_STEP;
    tried.repeats = 1;
    *out_fits = false;
    if (mt_attention_case_check(&tried) != MT_OK)
        return MT_OK;
    mt_status status = mt_device_open_simulated(capacity_bytes, &session.device);
    if (status != MT_OK)
        return status;
    status = mt_attention_session_run(&session, &tried, &result);
    *out_fits = result.is_done;
    mt_device_close(session.device);
    return status;
}

mt_status mt_attention_longest(const struct mt_attention_case *study, const struct mt_alloc_settings *alloc,
                               uint64_t capacity_bytes, int64_t *out)
{
    int64_t fitting = 0, too_long = MT_STUDY_LONGEST / MT_STUDY_LENGTH_STEP + 1;
    mt_status status = MT_OK;
    for (int64_t steps = 1; too_long - fitting > 1 && status == MT_OK;) {
        bool fits;
        status = try_steps(study, alloc, capacity_bytes, steps, &fits);
        *(fits ? &fitting : &too_long) = steps;
        bool is_bounded = too_long <= 2 * fitting || fitting < steps; /* doubled until one was too long */
        steps = is_bounded ? fitting + (too_long - fitting) / 2 : 2 * steps;
    }
    *out = fitting * MT_STUDY_LENGTH_STEP;
    return status;
}
