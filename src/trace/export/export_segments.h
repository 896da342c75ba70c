/* What has memory while a run is told, and what the blocks make of it in the end.
 *
 *   pieces of memory   ├───────────────────┤      ├──────────────┤     by address; neighbours of one segment are one
 *   live blocks           ├─────┤├──┤
 *   tiles              ├──┼─────┼┼──┼──────┤      ├──────────────┤     each a block, or memory that is in none */
#ifndef MT_CLI_EXPORT_SEGMENTS_H
#define MT_CLI_EXPORT_SEGMENTS_H

#include "trace/query/walk.h"
#include "trace/store/address_map.h"

/* Memory of a segment. The blocks in it and their sums are known once they are placed. */
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

/* As the events say; memory that is mapped twice is the later event's. */
void mt_export_segments_map(struct mt_export_segments *segments, const struct mt_walk_event *event);
void mt_export_segments_unmap(struct mt_export_segments *segments, const struct mt_walk_event *event);

/* Borrows the allocs of live blocks, by address. MT_BAD_TRACE if they overlap, or if one lies outside of memory. */
mt_status mt_export_segments_place(struct mt_export_segments *segments, const struct mt_walk_event *blocks,
                                   size_t count);

/* The piece after `piece`, or the first after NULL; NULL: there are no more. */
struct mt_export_piece *mt_export_segments_next(const struct mt_export_segments *segments,
                                                const struct mt_export_piece *piece);

/* A tile of a piece: `bytes` from `address` on, of the block or of none. */
struct mt_export_tile {
    mt_addr address;
    uint64_t bytes;
    const struct mt_walk_event *alloc; /* NULL: in no block */
    size_t next_block;
};

struct mt_export_tile mt_export_tile_begin(const struct mt_export_piece *piece);
bool mt_export_tile_next(const struct mt_export_segments *segments, const struct mt_export_piece *piece,
                         struct mt_export_tile *tile);

#endif
