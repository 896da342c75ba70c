/* The structure of a run in progress, shared by the files of this folder. */
#pragma once

#include "base/number_map.h"
#include "run/live_bounds.h"
#include "run/live_run.h"
#include "run/locked_sink.h"

/* Invariants: the recorder is not NULL while the locked sink is open; `blocks` has exactly the allocator's blocks that
 * were taken and not freed, and `uses` no others; sums add what was noted, even if notes contradict each other. */
struct mt_live_run {
    struct mt_recorder *recorder; /* NULL: nothing is stored, or the trace has ended */
    bool is_kept;                 /* the recorder belongs to the caller */
    struct mt_locked_sink locked;
    struct mt_sink sink;
    int64_t number;
    uint64_t capacity_bytes; /* of the device, or as in the run's row; 0: unknown */

    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_lock blocks_lock;
    struct mt_number_map blocks;       /* from address to struct mt_block * */
    struct mt_alloc_settings settings; /* of the allocator */
    struct mt_live_bounds *bounds;     /* NULL before the first estimate */
    struct mt_number_map uses; /* from address to the struct mt_use * of a block that was used, if uses are followed */
    enum { MT_LIVE_USES_NONE, MT_LIVE_USES_FOLLOWED, MT_LIVE_USES_LOST } use_state; /* none before the first use */

    struct mt_lock notes_lock;
    struct mt_foreign *foreign; /* NULL: no notes */
    struct mt_live_sums sums;
    struct mt_live_range {
        mt_addr begin, end;
    } * ranges; /* reserved by another allocator */
    size_t range_count;

    struct mt_lock held_lock;
    struct mt_outside held[MT_OUTSIDE_PART_COUNT]; /* of a simulated card */
};

/* As mt_live_run_relabel_all, for the notes (live_notes.c). */
void mt_live_notes_relabel_all(struct mt_live_run *run, mt_label_choice choose, void *context);

/* Stores the uses of all live blocks, before the trace ends (live_blocks.c). */
void mt_live_run_store_uses(struct mt_live_run *run);

/* Stores by how much estimates may lower and raise the peaks, before the trace ends (live_estimates.c). */
void mt_live_run_store_bounds(struct mt_live_run *run);

/* Returns the range of the block that the thread takes now, and forgets it; NULL: the bytes are exact. Valid until the
 * thread's next estimate. */
const struct mt_estimate_range *mt_live_run_take_range(void);

/* The sources of the locked sink, in a run that has both. */
enum { MT_LIVE_ALLOCATOR, MT_LIVE_NOTES };
