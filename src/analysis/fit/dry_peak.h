/* The memory that a dry run shows a program to need. It ran on a card with more than it asks for; here it is judged on a smaller
 * one.
 *
 *   ├───────────────────────────────── a card ─────────────────────────────────┤
 *   ├─ reserved of rank 0 ─┤─ its context ─┤─ reserved of rank 1 ─┤─ its context ─┤
 *
 * What ranks of a node hold on one card adds up. Each has its own context there. When ranks reach their peaks is not compared.
 *
 * Threads: any. */
#pragma once

#include "analysis/fit/fit_device.h"
#include "analysis/replay.h"
#include "producers/program/program_outcome.h"

/* What is needed of the card on which most is needed. Bytes are sums over the ranks that use the card; a process that is no
 * rank counts alone. */
struct mt_dry_peak {
    struct mt_replay_result
        peak; /* fits: every card suffices. Cached memory is freed only for a process that has its card alone */
    struct mt_fit_device counted; /* the device, less the memory that the processes held outside of the allocator */
    int64_t rank;                 /* of the process that needs most of that card; -1: it is no rank */
    int64_t sharers;              /* ranks that use that card, at least 1 */
    int64_t ranks;                /* that recorded a run */
    int64_t cards;                /* of a node, up to the last one that a process used; 0: not known */
};

/* Reads the runs that the program's processes recorded. Ranks that were not run are not counted. Fails with MT_NO_DRY_RUN if there
 * are none. */
mt_status mt_dry_peak_find(const struct mt_program_outcome *outcome, const struct mt_fit_device *device,
                           struct mt_dry_peak *out);

/* Sets *out to true if a process ran out of memory although its card has more than programs ask for. */
mt_status mt_dry_outcome_is_out(const struct mt_program_outcome *outcome, bool *out);
