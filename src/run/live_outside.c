/* The process's memory outside the run's allocator. */
#include "run/live_parts.h"

#include <assert.h>

void mt_live_run_outside(struct mt_live_run *run, const struct mt_outside *outside)
{
    const struct mt_sink *target = mt_locked_sink_enter(&run->locked);
    if (target->outside != NULL)
        target->outside(target->context, outside);
    mt_locked_sink_leave(&run->locked);
}

static uint64_t sum_held(const struct mt_live_run *run)
{
    uint64_t bytes = 0;
    for (int part = 0; part < MT_OUTSIDE_PART_COUNT; part++)
        bytes += run->held[part].bytes;
    return bytes;
}

bool mt_live_run_hold(struct mt_live_run *run, mt_outside_part part, int ranks)
{
    struct mt_outside added, *held = &run->held[part];
    assert(run->device != NULL);
    if (!mt_card_outside(&run->device->card, part, ranks, &added))
        return false;
    mt_lock_take(&run->held_lock);
    const bool is_new = held->bytes == 0 || part != MT_PART_NCCL_FIRST;
    if (is_new) {
        added.bytes += held->bytes;
        added.low_bytes += held->low_bytes;
        added.high_bytes += held->high_bytes;
        *held = added;
        mt_device_hold(run->device, sum_held(run));
    }
    mt_lock_give(&run->held_lock);
    if (is_new)
        mt_live_run_outside(run, &added);
    return true;
}

uint64_t mt_live_run_held_bytes(struct mt_live_run *run)
{
    const uint64_t context = run->device->card.context_bytes;
    mt_lock_take(&run->held_lock);
    const uint64_t bytes = sum_held(run);
    mt_lock_give(&run->held_lock);
    return context > 0 && bytes > context ? bytes : context;
}
