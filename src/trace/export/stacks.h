/* A label as a stack of frames, for the tools that draw those: the parts of its span, then its category, then its op.
 *
 *   span "model.layers.7.ffn.w1", category "einsum", op "matmul"  →  model layers 7 ffn w1 einsum matmul */
#ifndef MT_TRACE_EXPORT_STACKS_H
#define MT_TRACE_EXPORT_STACKS_H

#include "trace/query/blocks.h"

enum { MT_MOST_FRAMES = 64 };

/* Whether each layer has frames of its own, or all share one, "*". */
typedef enum mt_stack_layers { MT_LAYERS_EACH, MT_LAYERS_MERGED } mt_stack_layers;

/* Outermost frame first; at least one, none of them "". What of a path has no room is in its last frame. Release it. */
struct mt_stack {
    const char *frames[MT_MOST_FRAMES];
    size_t depth;
    char *span; /* what the frames of the span lie in */
};

void mt_stack_create(struct mt_stack *stack, const struct mt_label_row *label, mt_stack_layers layers);
void mt_stack_release(struct mt_stack *stack);

/* One line of folded stacks: the frames with ';' between them, and the bytes in each column.
 * Invariant: no two of a list are of one stack. */
struct mt_folded_row {
    char *stack;
    uint64_t bytes[2];
};

/* Lines, by stack once they were merged. Zero-initialized is empty and valid. */
struct mt_folded {
    struct mt_folded_row *rows;
    size_t count;
};

/* Which blocks count: those that were live at the peak of allocated bytes, or all. */
typedef enum mt_stack_moment { MT_STACKS_AT_PEAK, MT_STACKS_WHOLE_RUN } mt_stack_moment;

/* Adds the bytes of a run's labels to a column. Merge when all is added. */
void mt_folded_add(struct mt_folded *folded, const struct mt_label_row *labels, const struct mt_label_sum *sums,
                   size_t count, mt_stack_moment moment, mt_stack_layers layers, int column);
void mt_folded_merge(struct mt_folded *folded);
void mt_folded_release(struct mt_folded *folded);

#endif
