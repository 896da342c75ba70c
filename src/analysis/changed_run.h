/* A window of a run with changed blocks: some smaller, some absent for a while, and some added. Private to this
 * folder. */
#pragma once

#include "analysis/advise/program_changes.h"
#include "analysis/lifetimes.h"

/* Invariants: blocks are the window's, with the same indices; only requested_bytes may differ, and 0 removes a block;
 * cuts are ordered by block, then position. Do not copy or move: `window` borrows `input`. */
struct mt_changed_run {
    struct mt_window window; /* a copy, which borrows everything of the original */
    struct mt_advice_input input;
    struct mt_block_row *blocks;
    struct mt_cut_list cuts;
    struct mt_lifetime *added;
    size_t added_count;
    uint64_t peak_bytes, peak_blocks; /* of changed blocks that are live at the peak */
};

/* Copies the window without a change. Release it. */
void mt_changed_run_create(const struct mt_window *window, struct mt_changed_run *out);
void mt_changed_run_release(struct mt_changed_run *changed);

/* Sets the size of block `index`. */
void mt_changed_run_resize(struct mt_changed_run *changed, size_t index, uint64_t bytes);

/* Makes the block absent for from <= position < to. Call it in order of indices. */
void mt_changed_run_cut(struct mt_changed_run *changed, size_t index, int64_t from, int64_t to);

mt_status mt_changed_run_replay(const struct mt_changed_run *changed, const struct mt_alloc_settings *settings,
                                struct mt_replay_result *out);

/* Replays a change and adds it to the list if it is worth reporting. Copies the text of its place. */
mt_status mt_program_changes_add(struct mt_program_changes *changes, const struct mt_changed_run *changed,
                                 const struct mt_program_change *change);

/* Adds the best checkpoints of modules (checkpoint_change.c). */
mt_status mt_program_changes_add_checkpoints(const struct mt_window *window, struct mt_program_changes *out);

/* Adds half the micro-batch, and a loss in slices, to the changes of a run that trains (batch_change.c). */
mt_status mt_program_changes_add_batches(const struct mt_window *window, bool is_training,
                                         struct mt_program_changes *out);
