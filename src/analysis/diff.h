/* Why did memory change from one run to another?
 *
 * What was live at each run's peak of allocated bytes is compared by what blocks are, never by where they lie: category,
 * role, phase, op, place, precision, shape. Of reserved bytes the difference is that of allocated ones and what the
 * segments had beyond it, which is what no block could use:
 *
 *   reserved peak = allocated peak + cached
 *                   └ sum of the rows        └ what segments then had free, less what was not live then
 *
 * Ownership: arrays belong to the answer, mt_diff_release; text is borrowed from the trace of side A.
 * Threads: one at a time. */
#ifndef MT_TRACE_DIFF_H
#define MT_TRACE_DIFF_H

#include "trace/query/trace.h"

typedef enum mt_side { MT_SIDE_A, MT_SIDE_B, MT_SIDE_COUNT } mt_side;

/* A run to compare. Both may be of one opened trace, or of two, also of one file. */
struct mt_diff_run {
    struct mt_trace *trace;
    const struct mt_run *run;
};

/* A run at its peaks. Invariants: requested_bytes <= allocated_bytes <= reserved_bytes;
 * reserved_bytes = live_bytes + free_bytes + segment_bytes; idle_bytes <= free_bytes. */
struct mt_diff_side {
    uint64_t allocated_bytes, reserved_bytes; /* the peaks */
    uint64_t requested_bytes, blocks;         /* live at the peak of allocated bytes */
    int64_t step;                             /* of that moment; -1: before the first */
    const char *phase, *span;
    /* When the last segment of the reserved peak was taken, or grew: */
    int64_t reserved_step;
    const char *reserved_phase, *reserved_span;
    uint64_t asked_bytes;   /* for a block of so many; 0: not known */
    uint64_t segment_bytes; /* of that segment, or by which it grew */
    bool segment_grew;
    bool is_plan;                /* it is the one that a plan was made for, taken before the first block */
    uint64_t live_bytes;         /* of the blocks in the others, and in what it was before it grew */
    uint64_t free_bytes;         /* that there was beside those blocks */
    uint64_t idle_bytes;         /* of it, in segments without a block */
    uint64_t holes, widest_hole; /* in so many pieces, the widest of so many bytes */
};

/* What was live of one kind at both peaks. Bytes are of blocks, rounding included.
 * Invariant: delta_bytes = b_bytes - a_bytes. */
struct mt_diff_row {
    const char *category, *role, *phase, *op;
    uint64_t a_bytes, b_bytes, a_blocks, b_blocks;
    int64_t delta_bytes;
};

/* What a difference can come from, and the word for it in JSON. Precision, size and count of activations are one
 * cause a category. */
#define MT_CAUSES(X)                                                                                                   \
    X(PARAMETERS, "parameters")                                                                                        \
    X(WEIGHT_CASTS, "weight_casts")                 /* copies of weights for the length of an autocast region */       \
    X(LAST_GRADIENTS, "last_gradients")             /* of an earlier step than the peak's */                           \
    X(GRADIENTS, "gradients")                       /* of the peak's step */                                           \
    X(OPTIMIZER_STATE, "optimizer_state")           /* */                                                              \
    X(OPERAND_COPIES, "operand_copies")             /* activations in another precision, for matrix products */        \
    X(ACTIVATION_PRECISION, "activation_precision") /* the same tensors with wider or narrower elements */             \
    X(ACTIVATION_SIZE, "activation_size")           /* the same tensors with more or fewer elements */                 \
    X(ACTIVATION_COUNT, "activation_count")         /* tensors that one of them alone keeps */                         \
    X(ACTIVATION_MOMENT, "activation_moment")       /* that both make, and one has no more or not yet at its peak */   \
    X(TEMPORARIES, "temporaries")                   /* that were under way at the moment of the peak */                \
    X(WORKSPACES, "workspaces")                     /* */                                                              \
    X(DATA, "data")                                 /* */                                                              \
    X(ROUNDING, "rounding")                         /* what blocks have beyond what was asked for */                   \
    X(CACHED, "cached") /* of reserved bytes: what segments held beyond the allocated peak */

typedef enum mt_cause {
#define X(name, text) MT_CAUSE_##name,
    MT_CAUSES(X)
#undef X
        MT_CAUSE_COUNT
} mt_cause;
const char *mt_cause_name(mt_cause cause);

/* A part of a difference, and how that is known. */
struct mt_diff_cause {
    mt_cause kind;
    const char *category; /* of activations; "" for the others */
    const char *text;     /* "weight casts cached for the autocast region" */
    const char *evidence; /* a sentence with numbers, which calls the runs A and B */
    int64_t bytes;        /* more in B; never 0 */
};

/* A difference of one measure.
 * Invariants: the rows' delta_bytes sum to it, and so do the causes' bytes, to the byte. Both come largest magnitude
 * first; of two diffs of which one swaps the sides, rows and causes are the same but for the sign. */
struct mt_diff_parts {
    int64_t delta_bytes;
    struct mt_diff_row *rows; /* of reserved bytes, one is of the category MT_DIFF_CACHED and says nothing else */
    size_t row_count;
    struct mt_diff_cause *causes;
    size_t cause_count;
};
#define MT_DIFF_CACHED "(cached)"

struct mt_diff {
    struct mt_diff_side side[MT_SIDE_COUNT];
    struct mt_diff_parts allocated, reserved;
};

/* Compares. MT_USAGE if one of the runs never got a block; MT_BAD_TRACE if what was live at a peak, or the segments then,
 * do not sum to it. Reads what was live at two moments of each run, from the
 * nearest checkpoints: milliseconds, however long the runs. Release in any case. */
mt_status mt_trace_diff(const struct mt_diff_run *a, const struct mt_diff_run *b, struct mt_diff *out);
void mt_diff_release(struct mt_diff *diff);

#endif
