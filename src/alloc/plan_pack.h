/* Offline packing: places for blocks of known lifetimes, so that blocks which are live at once do not overlap, and the
 * highest end is low. Finding the lowest possible end is NP-hard; the peak of the live bytes is a lower bound.
 *
 *   offset ▲   ┌───────────────┐
 *          │   │       c       │      a block is a rectangle: its bytes high, its lifetime wide; it has one or two
 *          │ ┌─┴───┐   ┌───┬───┘      lifetimes, and lies at the same offset in both
 *          │ │  a  │   │ b │
 *          └─┴─────┴───┴───┴────▶ time
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The moments from `from` to before `until`. Invariant: from <= until; equal: an empty lifetime. */
struct mt_pack_lifetime {
    uint32_t from, until;
};

/* Invariant: lifetimes[0] is not empty; lifetimes[1] is empty or begins when that is over. */
struct mt_pack_block {
    uint64_t bytes;
    struct mt_pack_lifetime lifetimes[2];
    uint64_t offset; /* the result */
};

/* Returns the most bytes that are live at once. The sum of all blocks' bytes must fit. */
uint64_t mt_pack_peak(const struct mt_pack_block *blocks, size_t count);

/* Sets the offset of each block and returns the highest end. Tries several packings and keeps the lowest; stops at one of
 * at most `enough_bytes`. Takes time proportional to count², less than a second for 20,000 blocks. Its effort is counted in
 * comparisons, so the result depends on the arguments alone. */
uint64_t mt_pack(struct mt_pack_block *blocks, size_t count, uint64_t enough_bytes);

/* Sets the offsets of the blocks from `placed_count` on, around the ones before; returns the highest end of all. */
uint64_t mt_pack_around(struct mt_pack_block *blocks, size_t placed_count, size_t count);
