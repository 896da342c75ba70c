/* The annotations that are open at a moment, such as "Optimizer.step#AdamW.step", and the steps that passed ones mark:
 * PyTorch's optimizers annotate each update, and its profiler each step.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* Rules look at all open annotations for every block, and a damaged file may have any number. So at most
 * MT_MOST_OPEN_ANNOTATIONS are kept, and names longer than MT_MOST_ANNOTATION_BYTES are ignored. */
enum { MT_MOST_OPEN_ANNOTATIONS = 16, MT_MOST_ANNOTATION_BYTES = 255 };

/* All zero: before the first. Invariant: names[0 .. count) are the open ones among the snapshot's first `passed`
 * annotations, in the order in which they began. */
struct mt_torch_annotations {
    size_t passed;
    uint32_t count;
    const char *names[MT_MOST_OPEN_ANNOTATIONS]; /* the snapshot's */
    bool update_ended, step_began;               /* an optimizer's, the profiler's; the caller resets them */
};

/* Passes the annotations up to a time. */
void mt_torch_annotations_pass(struct mt_torch_annotations *open, const struct mt_torch_snapshot *snapshot,
                               int64_t time_us);
