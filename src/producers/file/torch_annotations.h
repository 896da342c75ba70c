/* The annotations that are open at a moment, such as "Optimizer.step#AdamW.step", and what those that were passed say about
 * steps: PyTorch's optimizers annotate each update, and its profiler each step.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* Rules look at all open annotations for every block, and a damaged file may have any number. So within
 * MT_MOST_OPEN_ANNOTATIONS further ones are ignored, as are names of over MT_MOST_ANNOTATION_BYTES. */
enum { MT_MOST_OPEN_ANNOTATIONS = 16, MT_MOST_ANNOTATION_BYTES = 255 };

/* All zero: before the first.
 * Invariant: names[0 .. count) are those of the snapshot's first `passed` annotations that have no end among these, in the
 * order of their beginnings. */
struct mt_torch_annotations {
    size_t passed;
    uint32_t count;
    const char *names[MT_MOST_OPEN_ANNOTATIONS]; /* the snapshot's */
    bool update_ended, step_began;               /* an optimizer's, the profiler's; the user sets them back */
};

/* Passes the annotations up to a time. */
void mt_torch_annotations_pass(struct mt_torch_annotations *open, const struct mt_torch_snapshot *snapshot,
                               int64_t time_us);
