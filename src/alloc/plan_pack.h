/* Offline packing: places for blocks with known lifetimes, such that blocks that are live at the same time do not
 * overlap, and the highest end is low. Finding the lowest possible end is NP-hard; the peak of live bytes is a lower
 * bound.
 *
 *   offset ▲   ┌───────────────┐
 *          │   │       c       │      a block is a rectangle: its height is its bytes, its width its lifetime;
 *          │ ┌─┴───┐   ┌───┬───┘      it has one or two lifetimes, with the same offset in both
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

/* Invariant: lifetimes[0] is not empty; lifetimes[1] is empty or begins after it. */
struct mt_pack_block {
    uint64_t bytes;
    struct mt_pack_lifetime lifetimes[2];
    uint64_t offset; /* the result */
};

/* Returns the peak of live bytes. The sum of all blocks' bytes must not overflow. */
uint64_t mt_pack_peak(const struct mt_pack_block *blocks, size_t count);

/* Sets the offset of each block and returns the highest end. Tries several packings and keeps the lowest; stops at one
 * of at most `enough_bytes`. Takes time proportional to count², less than a second for 20,000 blocks. Its effort is
 * limited by a number of comparisons, so the result depends only on the arguments. */
uint64_t mt_pack(struct mt_pack_block *blocks, size_t count, uint64_t enough_bytes);

/* Sets the offsets of the blocks from `placed_count` on, around the previous ones; returns the highest end of all. */
uint64_t mt_pack_around(struct mt_pack_block *blocks, size_t placed_count, size_t count);
