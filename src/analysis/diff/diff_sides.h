/* The sides of a diff: a run's live blocks at the peak of allocated bytes, and its segments at the peak of reserved
 * bytes. Private to this folder. */
#pragma once

#include "analysis/diff/diff.h"
#include "trace/query/blocks.h"

/* The blocks live at a run's peak of allocated bytes, its labels, and the events of the peak's step. Blocks allocated
 * before step_begin belong to an earlier step. Invariant: a block's label < label_count. */
struct diff_live {
    struct mt_block_row *blocks;
    struct mt_label_row *labels; /* with texts interned in `keeper`, so that equal texts have equal pointers */
    size_t block_count, label_count;
    int64_t event, step_begin, step_end;
};

/* Reads a side. Interns texts in `keeper`. Release in any case. */
mt_status diff_live_load(const struct mt_question *at, struct mt_trace *keeper, struct mt_diff_side *side,
                         struct diff_live *out);
void diff_live_release(struct diff_live *live);

/* True if a live block is a gradient from an earlier step than the peak's. */
bool diff_is_last_gradient(const struct diff_live *live, const struct mt_block_row *block);
