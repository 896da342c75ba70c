/* The difference in memory of two runs, and its causes.
 *
 * The blocks that were live at each run's peak of allocated bytes are compared by what they are, never by their addresses:
 * category, role, phase, op, place, precision, shape. Reserved bytes differ by that, and by what the segments held beyond
 * the allocated peak, which no block could use:
 *
 *   reserved peak = allocated peak + cached
 *                   └ sum of the rows        └ what was free in segments then, less what was not live then
 *
 * Ownership: arrays belong to the diff, see mt_diff_release; text is borrowed from the trace of side A.
 * Threads: one at a time. */
#pragma once

#include "analysis/run_question.h"
#include "base/label.h"
#include "trace/query/groups.h"

typedef enum mt_side { MT_SIDE_A, MT_SIDE_B, MT_SIDE_COUNT } mt_side;

/* A run at its peaks. Invariants: requested_bytes <= allocated_bytes <= reserved_bytes;
 * reserved_bytes = live_bytes + free_bytes + segment_bytes; idle_bytes <= free_bytes. */
struct mt_diff_side {
    uint64_t allocated_bytes, reserved_bytes; /* the peaks */
    uint64_t requested_bytes, blocks;         /* live at the peak of allocated bytes */
    int64_t step;                             /* of that moment; -1: before the first */
    const char *phase, *span;
    /* Gradients of an earlier step that are live at the peak of allocated bytes: */
    int64_t last_gradients_step;         /* that made them */
    const char *last_gradients_freed_in; /* phase of the peak's step; "": later, or never. NULL: there are none */
    /* The moment at which the last segment of the reserved peak was taken, or grew: */
    int64_t reserved_step;
    const char *reserved_phase, *reserved_span;
    uint64_t asked_bytes;   /* requested for the block that it was taken for; 0: not known */
    uint64_t segment_bytes; /* of that segment, or by which it grew */
    bool segment_grew;
    bool is_plan;                /* it is that of a plan, taken before the first block */
    uint64_t live_bytes;         /* of the blocks in the other segments, and in this one before it grew */
    uint64_t free_bytes;         /* beside those blocks */
    uint64_t idle_bytes;         /* of free_bytes, in segments without a block */
    uint64_t holes, widest_hole; /* the number of free pieces, and the bytes of the widest */
};

/* The blocks of one kind that were live at the peaks. Bytes include rounding.
 * Invariant: delta_bytes = b_bytes - a_bytes. */
struct mt_diff_row {
    const char *category, *role, *phase, *op;
    uint64_t a_bytes, b_bytes, a_blocks, b_blocks;
    int64_t delta_bytes;
};

/* The causes of a difference, and their names in JSON. Precision, size and count of activations are a cause for each
 * category. */
#define MT_CAUSES(X)                                                                                                   \
    X(PARAMETERS, "parameters")                                                                                        \
    X(WEIGHT_CASTS, "weight_casts")                 /* copies of weights for the length of an autocast region */       \
    X(LAST_GRADIENTS, "last_gradients")             /* of an earlier step than the peak's */                           \
    X(GRADIENTS, "gradients")                       /* of the peak's step */                                           \
    X(OPTIMIZER_STATE, "optimizer_state")           /* */                                                              \
    X(OPERAND_COPIES, "operand_copies")             /* activations in another precision, for matrix products */        \
    X(ACTIVATION_PRECISION, "activation_precision") /* the same tensors with wider or narrower elements */             \
    X(ACTIVATION_SIZE, "activation_size")           /* the same tensors with more or fewer elements */                 \
    X(ACTIVATION_COUNT, "activation_count")         /* tensors that only one run keeps */                              \
    X(ACTIVATION_MOMENT, "activation_moment")       /* tensors of both runs that are live at one peak only */          \
    X(TEMPORARIES, "temporaries")                   /* live at the moment of the peak */                               \
    X(WORKSPACES, "workspaces")                     /* */                                                              \
    X(DATA, "data")                                 /* */                                                              \
    X(ROUNDING, "rounding")                         /* bytes of blocks beyond the requested ones */                    \
    X(CACHED, "cached")                             /* of reserved bytes: held by segments beyond the allocated peak */

typedef enum mt_cause {
#define X(name, text) MT_CAUSE_##name,
    MT_CAUSES(X)
#undef X
        MT_CAUSE_COUNT
} mt_cause;
const char *mt_cause_name(mt_cause cause);

/* A kind of tensor. */
struct mt_diff_tensor {
    const char *category, *op, *place, *dtype, *shape;
    uint64_t requested_bytes; /* of one */
    bool is_operand_copy;     /* rounded for a matrix product, and kept until the product's backward */
};

/* `count` blocks that are of[A] in A and have become of[B] in B, or are on one side only. */
struct mt_diff_pair {
    uint64_t count; /* 0: there is no such pair */
    bool is_on[MT_SIDE_COUNT];
    struct mt_diff_tensor of[MT_SIDE_COUNT]; /* zeros on a side that has none */
};

/* A part of a difference, with the blocks that show it. The blocks are those that differ: equal ones cancel out.
 * Invariant: bytes is never 0. */
struct mt_diff_cause {
    mt_cause kind;
    const char *category; /* of activations; "" for the others */
    int64_t bytes;        /* more in B */
    uint64_t blocks[MT_SIDE_COUNT], requested_bytes[MT_SIDE_COUNT];
    struct mt_diff_pair most;        /* the pair that changes most in the cause's direction */
    struct mt_diff_pair counterpart; /* blocks of the other side that `most` stands for, in another precision */
    bool is_shared;                  /* some pairs changed in size and in precision, and share their bytes with another
                                      * cause */
};

/* A difference of one measure.
 * Invariants: the rows' delta_bytes sum to it, and so do the causes' bytes, to the byte. Both come largest magnitude
 * first. With the sides swapped, rows and causes are the same but for the sign. */
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

/* Compares two runs, which may be of one opened trace or of two. Fails with MT_USAGE if one of them never got a block, and
 * with MT_BAD_TRACE if the blocks or segments of a peak do not sum to it. Reads two moments of each run, from the nearest
 * checkpoints: milliseconds, however long the runs. Release in any case. */
mt_status mt_trace_diff(const struct mt_question *a, const struct mt_question *b, struct mt_diff *out);
void mt_diff_release(struct mt_diff *diff);

/* Finds the newest two finished runs that are known to differ in one setting and in no other that could change memory, the
 * older one first. Of all that differ so from the newest run with such a partner, it is the newest. Sets *out_a to NULL if
 * there are none. Fails with MT_USAGE if the trace has no run. */
mt_status mt_diff_pair_find(struct mt_trace *trace, const struct mt_run **out_a, const struct mt_run **out_b);

/* The blocks of one group that were live at the peaks of allocated bytes. Bytes include rounding.
 * Invariant: delta_bytes = bytes of B less bytes of A. */
struct mt_diff_group {
    const char *name;
    uint64_t bytes[MT_SIDE_COUNT], blocks[MT_SIDE_COUNT];
    int64_t delta_bytes;
};

/* Lists the groups of both runs by a key, the largest difference first. Their bytes sum to the peaks, to the byte. The
 * caller frees the rows, whose texts are borrowed from both traces. */
mt_status mt_diff_groups(const struct mt_question *a, const struct mt_question *b, mt_group_key key,
                         struct mt_diff_group **out_rows, size_t *out_count);

/* Lists the categories of both runs by their largest allocation over all phases, largest first. A row's bytes are the
 * requested size of that allocation; 0: the run has none. The caller frees the rows, whose texts are borrowed from both
 * traces. */
mt_status mt_diff_categories(const struct mt_question *a, const struct mt_question *b, struct mt_diff_group **out_rows,
                             size_t *out_count);
