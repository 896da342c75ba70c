/* The blocks of two sides as kinds, and the pairs of blocks by which they differ. Private to this folder.
 *
 *   blocks of A ─┐                 ┌─▶ rows
 *                ├─▶ kinds, sorted ┤
 *   blocks of B ─┘                 └─▶ pairs ──▶ causes
 *
 * Every label of a run also has a kind without blocks, which shows the blocks that the run has at other times. */
#pragma once

#include "analysis/diff/diff_sides.h"

/* Blocks with equal labels, and their number at each side's peak.
 * Invariant: a side with count > 0 has is_made. */
struct diff_kind {
    const char *category, *role, *phase, *op, *place, *dtype, *shape;
    bool is_of_earlier_step;     /* diff_is_last_gradient */
    uint64_t requested_bytes;    /* per block */
    bool is_made[MT_SIDE_COUNT]; /* at any time of the run */
    uint64_t count[MT_SIDE_COUNT];
    uint64_t block_bytes[MT_SIDE_COUNT]; /* sum of a side's blocks */
};

/* Invariant: ordered by their texts; no two are equal. */
struct diff_kinds {
    struct diff_kind *items;
    size_t count;
};

/* Release in any case. */
void diff_kinds_create(const struct diff_live live[MT_SIDE_COUNT], struct diff_kinds *out);
void diff_kinds_release(struct diff_kinds *kinds);

/* True if both kinds belong to one row: category, role, phase and op are equal. */
bool diff_kinds_share_row(const struct diff_kind *left, const struct diff_kind *right);

/* `count` blocks that differ: kind of[A] in A and of[B] in B. NULL: on one side only. */
struct diff_pair {
    const struct diff_kind *of[MT_SIDE_COUNT];
    uint64_t count;
    bool is_momentary; /* on one side only; the other run has such blocks, but not at its peak */
};

struct diff_pairs {
    struct diff_pair *items;
    size_t count;
};

/* Pairs the blocks of each row and place that have no equal counterpart: first blocks with equal shapes, then with
 * equal precisions, then any, largest with largest. A tensor that only one run knows equals a block of its bytes. Borrows the kinds. The caller frees the items. */
void diff_kinds_pair(const struct diff_kinds *kinds, struct diff_pairs *out);

/* Returns the pair's contribution to the difference of requested bytes. */
int64_t diff_pair_bytes(const struct diff_pair *pair);

/* diff_causes.c: adds the causes. Their bytes sum to the difference of the sides' allocated bytes. */
void diff_causes_add(const struct diff_kinds *kinds, const struct mt_diff_side *side, struct mt_diff_parts *out);
