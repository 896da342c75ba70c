/* The memory of a run during a walk, and its tiles at the end.
 *
 *   pieces of memory   ├───────────────────┤      ├──────────────┤     by address; neighbours of one segment are joined
 *   live blocks           ├─────┤├──┤
 *   tiles              ├──┼─────┼┼──┼──────┤      ├──────────────┤     each a block, or memory outside blocks */
#pragma once

#include "trace/query/walk.h"
#include "trace/store/address_map.h"

/* Memory of a segment. Its blocks and their sums are known once blocks are placed. */
struct mt_export_piece {
    struct mt_address_range range;
    uint32_t segment;
    mt_stream stream;
    size_t first_block, block_count;
    uint64_t allocated_bytes, requested_bytes;
};

/* Invariant: mapped_bytes is the sum of the pieces' bytes. */
struct mt_export_segments {
    struct mt_address_map pieces;
    uint64_t mapped_bytes;
    const struct mt_walk_event *blocks; /* borrowed, by address */
};

void mt_export_segments_create(struct mt_export_segments *segments);
void mt_export_segments_release(struct mt_export_segments *segments);

/* Apply an event. Memory that is mapped twice belongs to the later event. */
void mt_export_segments_map(struct mt_export_segments *segments, const struct mt_walk_event *event);
void mt_export_segments_unmap(struct mt_export_segments *segments, const struct mt_walk_event *event);

/* Places the allocs of live blocks, which it borrows, by address. Fails with MT_BAD_TRACE if two overlap, or if one
 * is outside all pieces. */
mt_status mt_export_segments_place(struct mt_export_segments *segments, const struct mt_walk_event *blocks,
                                   size_t count);

/* Returns the piece after `piece`, or the first for NULL; NULL: there are no more. */
struct mt_export_piece *mt_export_segments_next(const struct mt_export_segments *segments,
                                                const struct mt_export_piece *piece);

/* A tile of a piece: `bytes` from `address` on. */
struct mt_export_tile {
    mt_addr address;
    uint64_t bytes;
    const struct mt_walk_event *alloc; /* NULL: in no block */
    size_t next_block;
};

/* Iterate over the tiles of a piece: begin before the first, then next until it returns false. */
struct mt_export_tile mt_export_tile_begin(const struct mt_export_piece *piece);
bool mt_export_tile_next(const struct mt_export_segments *segments, const struct mt_export_piece *piece,
                         struct mt_export_tile *tile);
