/* The sides of a diff: what was live at a run's peak of allocated bytes, and its segments at that of reserved bytes. Private
 * to this folder. */
#pragma once

#include "analysis/diff/diff.h"
#include "trace/query/blocks.h"

/* The blocks live at a run's peak of allocated bytes, its labels, and the events of the peak's step: blocks allocated before
 * step_begin are of an earlier step. Invariant: a block's label < label_count. */
struct diff_live {
    struct mt_block_row *blocks;
    struct mt_label_row *labels; /* with texts that `keeper` keeps, so that equal ones have equal pointers */
    size_t block_count, label_count;
    int64_t event, step_begin, step_end;
};

/* Reads a side. Texts are kept in `keeper`. Release in any case. */
mt_status diff_live_load(const struct mt_question *at, struct mt_trace *keeper, struct mt_diff_side *side,
                         struct diff_live *out);
void diff_live_release(struct diff_live *live);

/* True if a live block is a gradient that was made in an earlier step than the peak's. */
bool diff_is_last_gradient(const struct diff_live *live, const struct mt_block_row *block);
