/* The memory that a dry run shows a program to need. It ran on a card with more than it asks for; here it is judged on a smaller
 * one.
 *
 * Threads: any. */
#pragma once

#include "analysis/fit/fit_device.h"
#include "analysis/replay.h"
#include "producers/program/program_outcome.h"

/* Each process has its own card. The peak belongs to the process that needs most of its card. */
struct mt_dry_peak {
    struct mt_replay_result peak; /* fits: every process does */
    struct mt_fit_device counted; /* the device, less the memory that this process held outside of the allocator */
    int64_t rank;                 /* of that process; -1: it is no rank */
};

/* Reads the runs that the program's processes recorded. Fails with MT_NO_DRY_RUN if there are none. */
mt_status mt_dry_peak_find(const struct mt_program_outcome *outcome, const struct mt_fit_device *device,
                           struct mt_dry_peak *out);

/* Sets *out to true if a process ran out of memory although its card has more than programs ask for. */
mt_status mt_dry_outcome_is_out(const struct mt_program_outcome *outcome, bool *out);
