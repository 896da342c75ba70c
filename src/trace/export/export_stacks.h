/* A label as a stack of frames: the parts of its span, then its category, then its op.
 *
 *   span "model.layers.7.ffn.w1", category "einsum", op "matmul"  →  model layers 7 ffn w1 einsum matmul */
#pragma once

#include "trace/export/export.h"
#include "trace/query/blocks.h"

enum { MT_MOST_FRAMES = 64 };

/* Frames, the outermost first. Invariants: 1 <= depth <= MT_MOST_FRAMES; no frame is "". If the path is longer, the
 * last frame contains the rest of it. */
struct mt_label_stack {
    const char *frames[MT_MOST_FRAMES];
    size_t depth;
    char *span; /* holds the frames of the span */
};

/* Borrows the label's texts. */
void mt_label_stack_create(struct mt_label_stack *stack, const struct mt_label_row *label, mt_stack_layers layers);
void mt_label_stack_release(struct mt_label_stack *stack);

/* The labels of a run and the sums of their blocks: `count` of each. */
struct mt_label_sums {
    struct mt_label_row *labels;
    struct mt_label_sum *sums;
    size_t count;
};

/* Reads the labels and sums. Release them in any case. */
mt_status mt_label_sums_read(const struct mt_export_run *from, struct mt_label_sums *out);
void mt_label_sums_release(struct mt_label_sums *sums);
