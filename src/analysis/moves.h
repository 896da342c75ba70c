/* The begins and ends of lifetimes in the order in which they happen; for this folder only. */
#ifndef MT_WHATIF_MOVES_H
#define MT_WHATIF_MOVES_H

#include "analysis/replay.h"

#include <stdbool.h>

/* A begin or an end. */
struct mt_move {
    uint64_t key;   /* what they are ordered by: the position from the earliest one, then ends before begins */
    uint64_t index; /* of the lifetime */
};

static inline bool mt_move_is_begin(const struct mt_move *move)
{
    return (move->key & 1) != 0;
}

/* Moves in order; those of one position in the lifetimes' order, ends first. Ends that never come are left out. */
struct mt_moves {
    struct mt_move *items;
    size_t count;
};

/* Release in any case. Linear in the count, for positions that lie about as close as events do. */
void mt_moves_create(const struct mt_lifetime *lifetimes, size_t count, struct mt_moves *out);
void mt_moves_release(struct mt_moves *moves);

#endif
