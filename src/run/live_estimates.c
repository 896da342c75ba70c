/* Estimates of scratch memory, and by how much they may lower and raise the peaks of a run. */
#include "run/live_parts.h"

/* The next block of the thread. */
static _Thread_local struct mt_estimate_range next_range;
static _Thread_local bool has_next;

const struct mt_estimate_range *mt_live_run_take_range(void)
{
    const bool has_range = has_next;
    has_next = false;
    return has_range ? &next_range : NULL;
}

void mt_live_run_estimate(struct mt_live_run *run, uint64_t bytes, const struct mt_estimate_range *range)
{
    if (run->alloc == NULL || !mt_live_run_is_traced(run))
        return;
    mt_lock_take(&run->blocks_lock);
    if (run->bounds == NULL)
        (void)mt_live_bounds_create(run->alloc, &run->settings, &run->blocks, &run->bounds);
    if (run->bounds != NULL && bytes == 0)
        mt_live_bounds_pass(run->bounds, range);
    mt_lock_give(&run->blocks_lock);
    has_next = bytes > 0;
    next_range = *range;
}

void mt_live_run_release_cached(struct mt_live_run *run)
{
    if (run->alloc == NULL)
        return;
    mt_alloc_release_cached(run->alloc);
    mt_lock_take(&run->blocks_lock);
    if (run->bounds != NULL)
        mt_live_bounds_release_cached(run->bounds);
    mt_lock_give(&run->blocks_lock);
}

void mt_live_run_store_bounds(struct mt_live_run *run)
{
    mt_lock_take(&run->blocks_lock);
    const struct mt_live_bounds *known = run->bounds;
    const struct mt_peak_bounds bounds = known != NULL ? mt_live_bounds_find(known) : (struct mt_peak_bounds){0};
    mt_lock_give(&run->blocks_lock);
    if (known == NULL)
        return;
    mt_live_run_measure(run, "bounds:live_less", MT_NO_STEP, (double)bounds.live_less);
    mt_live_run_measure(run, "bounds:live_more", MT_NO_STEP, (double)bounds.live_more);
    mt_live_run_measure(run, "bounds:reserved_less", MT_NO_STEP, (double)bounds.reserved_less);
    mt_live_run_measure(run, "bounds:reserved_more", MT_NO_STEP, (double)bounds.reserved_more);
}
