/* The blocks of two sides as kinds, and the pairs of blocks by which they differ. Private to this folder.
 *
 *   blocks of A ─┐                 ┌─▶ rows
 *                ├─▶ kinds, sorted ┤
 *   blocks of B ─┘                 └─▶ pairs ──▶ causes
 *
 * There is also a kind without blocks for every label of a run, which shows what the run makes at other times. */
#pragma once

#include "analysis/diff/diff_sides.h"

/* Blocks that are alike, and their number at each side's peak.
 * Invariant: a side with count > 0 has is_made. */
struct diff_kind {
    const char *category, *role, *phase, *op, *place, *dtype, *shape;
    bool is_of_earlier_step;     /* diff_is_last_gradient */
    uint64_t requested_bytes;    /* of one */
    bool is_made[MT_SIDE_COUNT]; /* at any time of the run */
    uint64_t count[MT_SIDE_COUNT];
    uint64_t block_bytes[MT_SIDE_COUNT]; /* of all of a side */
};

/* Invariant: ordered by their texts, no two of them alike. */
struct diff_kinds {
    struct diff_kind *items;
    size_t count;
};

/* Release in any case. */
void diff_kinds_create(const struct diff_live live[MT_SIDE_COUNT], struct diff_kinds *out);
void diff_kinds_release(struct diff_kinds *kinds);

/* True if two kinds are of one row: category, role, phase and op. */
bool diff_kinds_share_row(const struct diff_kind *left, const struct diff_kind *right);

/* `count` blocks that differ: of kind of[A] in A, which have become of[B] in B. NULL: they are on one side only. */
struct diff_pair {
    const struct diff_kind *of[MT_SIDE_COUNT];
    uint64_t count;
    bool is_momentary; /* on one side only, and the other run makes such blocks but has none at its peak */
};

struct diff_pairs {
    struct diff_pair *items;
    size_t count;
};

/* Pairs what is left of kinds in one row and place without equal blocks: first those of one shape, then those of one
 * precision, then any, the largest with the largest. Borrows the kinds. The caller frees the items. */
void diff_kinds_pair(const struct diff_kinds *kinds, struct diff_pairs *out);

/* Returns the bytes that the pair adds to the difference of requested bytes. */
int64_t diff_pair_bytes(const struct diff_pair *pair);

/* diff_causes.c: adds the causes, whose bytes sum to what the sides' allocated bytes differ by. */
void diff_causes_add(const struct diff_kinds *kinds, const struct mt_diff_side *side, struct mt_diff_parts *out);
