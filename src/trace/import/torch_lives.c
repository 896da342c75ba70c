#include "trace/import/torch_lives.h"

#include "base/memory.h"
#include "base/number_map.h"

#include <stdlib.h>

void mt_torch_lives_create(struct mt_torch_lives *lives, const struct mt_torch_snapshot *snapshot)
{
    struct mt_number_map live;
    mt_number_map_create(&live);
    lives->count = snapshot->event_count;
    lives->phases = mt_host_alloc(lives->count + 1);
    lives->ends = mt_host_alloc((lives->count + 1) * sizeof *lives->ends);
    for (size_t i = 0; i < lives->count; i++) {
        const struct mt_torch_event *event = &snapshot->events[i];
        uint64_t began;
        lives->ends[i] = UINT32_MAX;
        if (event->action == MT_TORCH_ALLOC)
            mt_number_map_put(&live, event->address, i);
        else if (event->action == MT_TORCH_FREE_COMPLETED && mt_number_map_take(&live, event->address, &began))
            lives->ends[began] = (uint32_t)i;
    }
    mt_number_map_release(&live);
}

void mt_torch_lives_release(struct mt_torch_lives *lives)
{
    free(lives->phases);
    free(lives->ends);
}

/* Forward and loss are one here: what forward makes for the loss is gone before anything needs it saved. */
static mt_phase whole_phase(uint8_t phase)
{
    return phase == MT_PHASE_LOSS ? MT_PHASE_FORWARD : (mt_phase)phase;
}

bool mt_torch_lives_outlive(const struct mt_torch_lives *lives, size_t number)
{
    uint32_t end = lives->ends[number];
    return end == UINT32_MAX || whole_phase(lives->phases[end]) != whole_phase(lives->phases[number]);
}
