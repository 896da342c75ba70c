/* Holes: what the live blocks of a segment leave of its memory.
 *
 *   segment   ├──────────────────────────────────────────┤
 *   memory    ├──────────────┤├────┤   ├─────────────────┤
 *   blocks       ├────┤├──────────┤     ├───┤├─────────┤
 *   holes     ├─┤                  ├┤  ├┤               ├┤
 *
 * Where there is no memory there is no hole. A segment without a block is one hole, or as many as it has pieces. */
#ifndef MT_TRACE_HOLES_H
#define MT_TRACE_HOLES_H

#include "trace/query/blocks.h"

/* A segment at a moment.
 * Invariant: mapped_bytes = allocated_bytes + hole_bytes, for blocks that lie beside each other in its memory, as those of
 * a sound trace do. */
struct mt_segment_holes {
    const struct mt_segment_row *segment;
    const struct mt_block_row *const *blocks; /* live in it, by offset */
    size_t block_count;
    const uint64_t *holes; /* their sizes, by offset; none is 0 */
    size_t hole_count;
    uint64_t mapped_bytes;                               /* that have memory */
    uint64_t allocated_bytes, hole_bytes, largest_bytes; /* the last of the holes */
};

/* Told of one segment after another, by number; what it is given is valid during the call. */
struct mt_hole_visitor {
    void *context;
    void (*visit)(void *context, const struct mt_segment_holes *holes);
};

/* Blocks, segments and their parts to look at, borrowed. Invariants: every block's and every part's segment <
 * segment_count; parts are ordered by segment, then offset. */
struct mt_layout {
    const struct mt_block_row *blocks;
    size_t block_count;
    const struct mt_segment_row *segments;
    size_t segment_count;
    const struct mt_part_row *parts;
    size_t part_count;
};

/* Visits the segments that have memory after `event`, with the blocks that are live after it. Sorts those. */
void mt_holes_visit(const struct mt_layout *layout, int64_t event, const struct mt_hole_visitor *visitor);

#endif
