#include "producers/file/step_times.h"

#include "base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

void mt_step_times_phase(struct mt_step_times *times, mt_phase phase, uint64_t time_ns)
{
    assert(phase < MT_PHASE_COUNT && (!times->is_open || times->count > 0));
    uint64_t ns = time_ns > times->since_ns ? time_ns - times->since_ns : 0;
    if (times->is_open) {
        times->steps[times->count - 1].ns += ns;
        times->steps[times->count - 1].phase_ns[times->phase] += ns;
    }
    times->phase = phase;
    times->since_ns = time_ns;
}

void mt_step_times_end(struct mt_step_times *times, uint64_t time_ns)
{
    mt_step_times_phase(times, times->phase, time_ns);
    times->is_open = false;
}

void mt_step_times_begin(struct mt_step_times *times, mt_phase phase, uint64_t time_ns)
{
    mt_step_times_end(times, time_ns);
    *MT_HOST_ADD(times->steps, times->count) = (struct mt_step_time){0};
    times->is_open = true;
    times->phase = phase;
}

static void store_phases(const struct mt_step_time *time, int64_t step, struct mt_live_run *run)
{
    for (int phase = 0; phase < MT_PHASE_COUNT; phase++) {
        char name[32];
        snprintf(name, sizeof name, "phase_ms:%s", mt_phase_name((mt_phase)phase));
        if (time->phase_ns[phase] > 0)
            mt_live_run_measure(run, name, step, (double)time->phase_ns[phase] * 1e-6);
    }
}

void mt_step_times_store(const struct mt_step_times *times, size_t count, struct mt_live_run *run)
{
    assert(count <= times->count);
    for (size_t i = 0; i < count; i++) {
        if (times->steps[i].ns == 0)
            continue;
        store_phases(&times->steps[i], (int64_t)i, run);
        mt_live_run_measure(run, "step_ms", (int64_t)i, (double)times->steps[i].ns * 1e-6);
    }
}

void mt_step_times_release(struct mt_step_times *times)
{
    free(times->steps);
    *times = (struct mt_step_times){0};
}
