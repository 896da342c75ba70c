/* Holes (gaps): the memory of segments outside live blocks; and fragmentation: the gaps that no request could use.
 *
 *   segment   ├──────────────────────────────────────────┤
 *   memory    ├──────────────┤├────┤   ├─────────────────┤
 *   blocks       ├────┤├──────────┤     ├───┤├─────────┤
 *   holes     ├─┤                  ├┤  ├┤               ├┤
 *
 * Addresses without memory are not gaps. A segment without a block is one gap, or one per contiguous piece of its
 * memory. Private to this folder. */
#pragma once

#include "analysis/advise/advise.h"

/* A segment after an event.
 * Invariant: mapped_bytes = allocated_bytes + hole_bytes, unless blocks overlap or have no memory, as in a damaged
 * trace. */
struct mt_segment_holes {
    const struct mt_segment_row *segment;
    const struct mt_block_row *const *blocks; /* live in it, by offset */
    size_t block_count;
    const uint64_t *holes; /* sizes, by offset; never 0 */
    size_t hole_count;
    uint64_t mapped_bytes; /* with memory */
    uint64_t allocated_bytes, hole_bytes;
    uint64_t largest_bytes; /* of the largest gap */
};

/* Called for each segment, ordered by number. Its argument is valid during the call. */
struct mt_hole_visitor {
    void *context;
    void (*visit)(void *context, const struct mt_segment_holes *holes);
};

/* Blocks, segments and their parts, borrowed. Invariants: every block's and every part's segment < segment_count; parts
 * are ordered by segment, then offset. */
struct mt_layout {
    const struct mt_block_row *blocks;
    size_t block_count;
    const struct mt_segment_row *segments;
    size_t segment_count;
    const struct mt_part_row *parts;
    size_t part_count;
};

/* Visits the segments that have memory after `event`, with their live blocks. */
void mt_holes_visit(const struct mt_layout *layout, int64_t event, const struct mt_hole_visitor *visitor);

/* Returns the layout that borrows the input's blocks and segments. */
struct mt_layout mt_layout_of(const struct mt_advice_input *input);

/* Returns the reserved memory without blocks at the peak of reserved bytes; zeros if nothing was reserved in the
 * window. */
struct mt_fragmentation mt_fragmentation_find(const struct mt_advice_input *input);
