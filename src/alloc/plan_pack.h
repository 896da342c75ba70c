/* Offline packing: places for blocks whose lives are known beforehand, so that those that are live at once do not
 * overlap and the highest end is low. Finding the lowest possible is NP-hard; the most that is live at once bounds it
 * from below.
 *
 *   offset ▲   ┌───────────────┐
 *          │   │       c       │      a block is a rectangle: its bytes high, its life wide; it has one or two lives,
 *          │ ┌─┴───┐   ┌───┬───┘      and lies at one height in both
 *          │ │  a  │   │ b │
 *          └─┴─────┴───┴───┴────▶ time
 */
#ifndef MT_ALLOC_PLAN_PACK_H
#define MT_ALLOC_PLAN_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Moments `from` up to, not including, `until`. Invariant: from <= until; equal: none. */
struct mt_pack_life {
    uint32_t from, until;
};

/* Invariant: lives[0] is not empty and begins before lives[1], if that is not empty; they do not overlap. */
struct mt_pack_block {
    uint64_t bytes;
    struct mt_pack_life lives[2];
    uint64_t offset; /* found by mt_pack */
};

/* The most bytes that are live at once. The sum of all blocks' bytes must fit. */
uint64_t mt_pack_peak(const struct mt_pack_block *blocks, size_t count);

/* Gives each block its offset and returns the highest end. Blocks are arranged in several ways, of which the lowest is
 * taken, and no more once one needs no more than `enough_bytes`. Takes time proportional to count², and less than a
 * second for 20,000; equal arguments give equal places. */
uint64_t mt_pack(struct mt_pack_block *blocks, size_t count, uint64_t enough_bytes);

/* Gives an offset to those from `placed_count` on, where the ones before leave room; returns the highest end of all. */
uint64_t mt_pack_around(struct mt_pack_block *blocks, size_t placed_count, size_t count);

#endif
