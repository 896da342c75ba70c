/* Measures the steps of an import, and each phase in them: from one request of the program to the next request that
 * begins a phase or a step. So times are host times of the program, not of a device that works asynchronously.
 *
 * Threads: one at a time. */
#pragma once

#include "base/label.h"
#include "run/live_run.h"

/* The time of a step. Invariant: its phases sum to it. */
struct mt_step_time {
    uint64_t ns, phase_ns[MT_PHASE_COUNT];
};

/* All zero: no step yet. Invariant: all of steps[0 .. count) have ended, except the last one if `is_open`. */
struct mt_step_times {
    struct mt_step_time *steps;
    size_t count;
    bool is_open;
    mt_phase phase;    /* the current one */
    uint64_t since_ns; /* when it began */
};

/* Begin and end a step, or begin a phase. Time outside steps does not count. */
void mt_step_times_begin(struct mt_step_times *times, mt_phase phase, uint64_t time_ns);
void mt_step_times_phase(struct mt_step_times *times, mt_phase phase, uint64_t time_ns);
void mt_step_times_end(struct mt_step_times *times, uint64_t time_ns);

/* Stores the first `count` steps as measurements of the run. */
void mt_step_times_store(const struct mt_step_times *times, size_t count, struct mt_live_run *run);

void mt_step_times_release(struct mt_step_times *times);
