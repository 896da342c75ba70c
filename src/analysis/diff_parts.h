/* The parts that a diff is made of; for query_diff.c and the diff_*.c beside it.
 *
 *   blocks of A ─┐                 ┌─▶ rows
 *                ├─▶ kinds, sorted ┤
 *   blocks of B ─┘                 └─▶ pairs ──▶ causes ──▶ evidence
 *
 * A kind is also there without blocks, for every label of a run: so it is known what the run makes at other times.
 * All texts are kept in the trace of side A, so equal ones have equal pointers. */
#ifndef MT_TRACE_QUERY_DIFF_PARTS_H
#define MT_TRACE_QUERY_DIFF_PARTS_H

#include "analysis/diff.h"
#include "trace/query/blocks.h"

/* The blocks live at a run's peak of allocated bytes, its labels, and the events of the peak's step: what was made before
 * step_begin is of an earlier step. Invariant: a block's label < label_count. */
struct diff_live {
    struct mt_block_row *blocks;
    struct mt_label_row *labels; /* with texts kept by the trace of side A */
    size_t block_count, label_count;
    int64_t event, step_begin, step_end;
};

/* Whether a live block is a gradient that was made in an earlier step than the peak's. */
bool diff_is_last_gradient(const struct diff_live *live, const struct mt_block_row *block);

/* Blocks that are alike, and how many of them each side had at its peak. Invariant: a side that has
 * some makes them. */
struct diff_kind {
    const char *category, *role, *phase, *op, *place, *dtype, *shape;
    bool is_of_earlier_step;     /* diff_is_last_gradient */
    uint64_t requested_bytes;    /* of one */
    bool is_made[MT_SIDE_COUNT]; /* at any time of the run */
    uint64_t count[MT_SIDE_COUNT];
    uint64_t block_bytes[MT_SIDE_COUNT]; /* of all of a side */
};

/* Invariant: ordered by diff_kinds_merge, no two of them alike. */
struct diff_kinds {
    struct diff_kind *items;
    size_t count;
};

/* Adds the labels of a side and the blocks of its peak, not merged yet. */
void diff_kinds_add(struct diff_kinds *kinds, mt_side side, const struct diff_live *live);

/* Orders them by text and merges alike ones. The order is the same whichever side is A. */
void diff_kinds_merge(struct diff_kinds *kinds);

/* Whether two kinds are in one row: category, role, phase and op. */
bool diff_kinds_share_row(const struct diff_kind *left, const struct diff_kind *right);

/* `count` blocks that have no equal on the other side: of kind `of[A]` in A, which have become `of[B]` in B; NULL: they
 * are on one side alone. */
struct diff_pair {
    const struct diff_kind *of[MT_SIDE_COUNT];
    uint64_t count;
    bool is_momentary; /* on one side alone, while the other run makes such blocks too and has none at its peak */
};

struct diff_pairs {
    struct diff_pair *items;
    size_t count;
};

/* Pairs what is left of kinds in one row and place once equal blocks are taken away: first those of one shape, then those
 * of one precision, then any, the largest with the largest. Borrows the kinds. */
void diff_kinds_pair(const struct diff_kinds *kinds, struct diff_pairs *out);

/* What the pair adds to the difference of requested bytes. */
int64_t diff_pair_bytes(const struct diff_pair *pair);

/* A cause while it is summed up. */
struct diff_finding {
    mt_cause cause;
    const char *category;
    int64_t bytes;
    uint64_t blocks[MT_SIDE_COUNT]; /* of the pairs that have come together here, those that are on a side */
    uint64_t requested_bytes[MT_SIDE_COUNT];
    const struct diff_pair *most_up, *most_down; /* the pairs that add and take most here; NULL: none does */
    int64_t most_up_bytes, most_down_bytes;      /* by so much */
    bool is_shared; /* some pairs changed in size and precision, and have their bytes in two findings */
};

struct diff_findings {
    struct diff_finding *items;
    size_t count;
};

/* Whether blocks are operands of matrix products, rounded for them and kept until the product's backward. */
bool diff_is_operand_copy(const struct diff_kind *kind);

/* What the pairs come from. Borrows them. The findings' bytes sum to what the pairs add. */
void diff_findings_collect(const struct diff_pairs *pairs, struct diff_findings *out);

/* Gradients that were live at a side's peak though they were made in an earlier step: of one of them. */
struct diff_last_gradients {
    int64_t made_in_step;
    const char *freed_in; /* phase of the peak's step; "": later, or never. NULL: there are none */
};

/* What a cause's words need besides. */
struct diff_context {
    struct mt_trace *keeper;         /* of side A: its texts outlive the answer */
    const struct mt_diff_side *side; /* both */
    struct diff_last_gradients last_gradients[MT_SIDE_COUNT];
    const struct diff_pairs *pairs; /* that findings are made of */
};

/* The cause in words. `text` and `evidence` are kept. */
struct mt_diff_cause diff_cause_describe(const struct diff_context *context, const struct diff_finding *finding);

#endif
