/* The difference in memory of two runs, and its causes.
 *
 * Blocks that were live at each run's peak of allocated bytes are compared by their labels, not by their addresses:
 * category, role, phase, op, place, precision, shape. The difference of reserved bytes also includes memory of segments
 * beyond the allocated peak, which no block could use:
 *
 *   reserved peak = allocated peak + cached
 *                   └ sum of the rows        └ free memory of segments then, minus blocks that were not live then
 *
 * Ownership: the diff owns its arrays, see mt_diff_release; texts are borrowed from the trace of side A.
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
    int64_t step;                             /* of that moment; -1: before the first step */
    const char *phase, *span;
    /* Gradients of an earlier step that are live at the peak of allocated bytes: */
    int64_t last_gradients_step;         /* the step that allocated them */
    const char *last_gradients_freed_in; /* phase of the peak's step; "": later or never; NULL: no such gradients */
    /* The moment at which the last segment of the reserved peak was mapped, or grew: */
    int64_t reserved_step;
    const char *reserved_phase, *reserved_span;
    uint64_t asked_bytes;   /* requested for the block that needed it; 0: unknown */
    uint64_t segment_bytes; /* of that segment, or how much it grew */
    bool segment_grew;
    bool is_plan;                /* it is the segment of a plan, mapped before the first block */
    uint64_t live_bytes;         /* of the blocks in other segments, and in this one before it grew */
    uint64_t free_bytes;         /* free memory between those blocks */
    uint64_t idle_bytes;         /* of free_bytes, in segments without a block */
    uint64_t holes, widest_hole; /* number of free pieces, and the size of the largest */
};

/* The blocks of one kind that were live at the peaks. Bytes include rounding.
 * Invariant: delta_bytes = b_bytes - a_bytes. */
struct mt_diff_row {
    const char *category, *role, *phase, *op;
    uint64_t a_bytes, b_bytes, a_blocks, b_blocks;
    int64_t delta_bytes;
};

/* The causes of a difference, and their names in JSON. Precision, size and count of activations are one cause per
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
    uint64_t requested_bytes; /* per block */
    bool is_operand_copy;     /* rounded for a matrix product, and kept until the product's backward */
};

/* `count` blocks that are of[A] in run A and of[B] in run B, or exist on one side only. */
struct mt_diff_pair {
    uint64_t count; /* 0: no such pair */
    bool is_on[MT_SIDE_COUNT];
    struct mt_diff_tensor of[MT_SIDE_COUNT]; /* zeros on a side without such blocks */
};

/* A part of a difference, with the blocks that cause it. Equal blocks of both sides cancel out.
 * Invariant: bytes is never 0. */
struct mt_diff_cause {
    mt_cause kind;
    const char *category; /* for activations; otherwise "" */
    int64_t bytes;        /* B minus A */
    uint64_t blocks[MT_SIDE_COUNT], requested_bytes[MT_SIDE_COUNT];
    struct mt_diff_pair most;        /* the pair that changes most in the cause's direction */
    struct mt_diff_pair counterpart; /* blocks of the other side that `most` replaces, in another precision */
    bool is_shared;                  /* some pairs changed in size and in precision, and share their bytes with another
                                      * cause */
};

/* A difference of one measure.
 * Invariants: the rows' delta_bytes sum exactly to it, and so do the causes' bytes. Both are ordered by magnitude,
 * largest first. If the sides are swapped, rows and causes differ only in the sign. */
struct mt_diff_parts {
    int64_t delta_bytes;
    struct mt_diff_row *rows; /* for reserved bytes, one has the category MT_DIFF_CACHED and no other fields */
    size_t row_count;
    struct mt_diff_cause *causes;
    size_t cause_count;
};
#define MT_DIFF_CACHED "(cached)"

struct mt_diff {
    struct mt_diff_side side[MT_SIDE_COUNT];
    struct mt_diff_parts allocated, reserved;
};

/* Compares two runs of the same or of two open traces. Fails with MT_USAGE if a run has no blocks, and with
 * MT_BAD_TRACE if the blocks or segments of a peak do not sum to it. Reads two moments of each run, from the nearest
 * checkpoints; takes milliseconds, even for long runs. Release in any case. */
mt_status mt_trace_diff(const struct mt_question *a, const struct mt_question *b, struct mt_diff *out);
void mt_diff_release(struct mt_diff *diff);

/* Finds the newest pair of finished runs that are known to differ in one setting, and in no other setting that could
 * change memory. The older run comes first; if several older runs qualify, it is the newest of them. Sets *out_a to
 * NULL if there is no such pair. Fails with MT_USAGE if the trace has no run. */
mt_status mt_diff_pair_find(struct mt_trace *trace, const struct mt_run **out_a, const struct mt_run **out_b);

/* The blocks of one group that were live at the peaks of allocated bytes. Bytes include rounding.
 * Invariant: delta_bytes = bytes of B minus bytes of A. */
struct mt_diff_group {
    const char *name;
    uint64_t bytes[MT_SIDE_COUNT], blocks[MT_SIDE_COUNT];
    int64_t delta_bytes;
};

/* Lists the groups of both runs by a key, largest difference first. Their bytes sum exactly to the peaks. The caller
 * frees the rows; their texts are borrowed from both traces. */
mt_status mt_diff_groups(const struct mt_question *a, const struct mt_question *b, mt_group_key key,
                         struct mt_diff_group **out_rows, size_t *out_count);

/* Lists the categories of both runs by their largest allocation over all phases, largest first. A row's bytes are the
 * requested size of that allocation; 0: the run has none. The caller frees the rows; their texts are borrowed from both
 * traces. */
mt_status mt_diff_categories(const struct mt_question *a, const struct mt_question *b, struct mt_diff_group **out_rows,
                             size_t *out_count);
