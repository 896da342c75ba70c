/* The memory that a program needs, from its dry run. It ran on a card with ample memory; here the result is compared
 * with a smaller card.
 *
 *   ├───────────────────────────────── a card ─────────────────────────────────┤
 *   ├─ reserved of rank 0 ─┤─ its context ─┤─ reserved of rank 1 ─┤─ its context ─┤
 *
 * Memory of ranks on one card is added. Each rank has its own context. The times at which ranks reach their peaks are
 * ignored.
 *
 * Threads: any. */
#pragma once

#include "analysis/fit/fit_device.h"
#include "analysis/replay.h"
#include "producers/program/program_outcome.h"

/* The needs of the card on which most memory is needed. Bytes are sums over the ranks on that card; a process that is
 * not a rank counts alone. */
struct mt_dry_peak {
    /* fits: every card suffices. Cached memory is assumed to be freed only for a process that does not share its
     * card. */
    struct mt_replay_result peak;
    struct mt_fit_device counted; /* the device, minus the memory of the processes outside the allocator */
    int64_t rank;                 /* the process that needs most of that card; -1: not a rank */
    int64_t sharers;              /* ranks on that card, at least 1 */
    int64_t ranks;                /* that recorded a run */
    int64_t cards;                /* of a node, up to the last one that a process used; 0: unknown */
};

/* Reads the runs that the program's processes recorded. Ranks that were not run are not counted. Fails with
 * MT_NO_DRY_RUN if there are no runs. */
mt_status mt_dry_peak_find(const struct mt_program_outcome *outcome, const struct mt_fit_device *device,
                           struct mt_dry_peak *out);

/* Sets *out to true if a process ran out of memory even on a card of MT_ROOMY_BYTES. */
mt_status mt_dry_outcome_is_out(const struct mt_program_outcome *outcome, bool *out);
