#include "trace/export/export_segments.h"

#include <assert.h>
#include <inttypes.h>

void mt_export_segments_create(struct mt_export_segments *segments)
{
    *segments = (struct mt_export_segments){0};
    mt_address_map_create(&segments->pieces, sizeof(struct mt_export_piece));
}

void mt_export_segments_release(struct mt_export_segments *segments)
{
    mt_address_map_release(&segments->pieces);
}

static uint64_t length(const struct mt_export_piece *piece)
{
    return piece->range.end - piece->range.begin;
}

static void add_piece(struct mt_export_segments *segments, const struct mt_export_piece *piece)
{
    if (piece->range.begin >= piece->range.end)
        return;
    mt_address_map_add(&segments->pieces, piece);
    segments->mapped_bytes += length(piece);
}

static struct mt_export_piece take_piece(struct mt_export_segments *segments, const struct mt_export_piece *found)
{
    assert(segments->mapped_bytes >= length(found));
    struct mt_export_piece piece = *found;
    mt_address_map_remove(&segments->pieces, piece.range.begin);
    segments->mapped_bytes -= length(&piece);
    return piece;
}

/* Removes the memory in the range. */
static void clear_range(struct mt_export_segments *segments, struct mt_address_range range)
{
    const struct mt_export_piece *found;
    while ((found = mt_address_map_find(&segments->pieces, range.begin, range.end)) != NULL) {
        struct mt_export_piece below = take_piece(segments, found), above = below;
        below.range.end = range.begin;
        above.range.begin = range.end;
        add_piece(segments, &below);
        add_piece(segments, &above);
    }
}

/* Returns the addresses of an event. */
static struct mt_address_range range_of(const struct mt_walk_event *event)
{
    mt_addr end = event->address + event->block_bytes;
    return (struct mt_address_range){event->address, end < event->address ? UINT64_MAX : end};
}

/* Joins the piece with adjacent memory in [begin, end), if that belongs to the same segment. */
static void join(struct mt_export_segments *segments, struct mt_export_piece *piece, mt_addr begin, mt_addr end)
{
    const struct mt_export_piece *found = mt_address_map_find(&segments->pieces, begin, end);
    if (found == NULL || found->segment != piece->segment)
        return;
    struct mt_export_piece other = take_piece(segments, found);
    piece->range.begin = other.range.begin < piece->range.begin ? other.range.begin : piece->range.begin;
    piece->range.end = other.range.end > piece->range.end ? other.range.end : piece->range.end;
}

void mt_export_segments_map(struct mt_export_segments *segments, const struct mt_walk_event *event)
{
    struct mt_export_piece piece = {.range = range_of(event), .segment = event->segment, .stream = event->stream};
    clear_range(segments, piece.range);
    if (piece.range.begin > 0)
        join(segments, &piece, piece.range.begin - 1, piece.range.begin);
    if (piece.range.end < UINT64_MAX)
        join(segments, &piece, piece.range.end, piece.range.end + 1);
    add_piece(segments, &piece);
}

void mt_export_segments_unmap(struct mt_export_segments *segments, const struct mt_walk_event *event)
{
    clear_range(segments, range_of(event));
}

struct mt_export_piece *mt_export_segments_next(const struct mt_export_segments *segments,
                                                const struct mt_export_piece *piece)
{
    return mt_address_map_find(&segments->pieces, piece != NULL ? piece->range.end : 0, UINT64_MAX);
}

static mt_status fail_on_block(const struct mt_walk_event *block)
{
    return mt_fail(MT_BAD_TRACE,
                   "the trace is damaged: allocation %" PRId64 " of %" PRIu64
                   " bytes overlaps another block, or memory that is not mapped",
                   block->n, block->block_bytes);
}

mt_status mt_export_segments_place(struct mt_export_segments *segments, const struct mt_walk_event *blocks,
                                   size_t count)
{
    struct mt_export_piece *piece = mt_export_segments_next(segments, NULL);
    mt_addr free_from = 0;
    segments->blocks = blocks;
    for (size_t i = 0; i < count; i++) {
        struct mt_address_range range = range_of(&blocks[i]);
        while (piece != NULL && piece->range.end <= range.begin)
            piece = mt_export_segments_next(segments, piece);
        bool fits = piece != NULL && range.begin >= piece->range.begin && range.end <= piece->range.end;
        if (!fits || range.begin < free_from)
            return fail_on_block(&blocks[i]);
        if (piece->block_count++ == 0)
            piece->first_block = i;
        piece->allocated_bytes += blocks[i].block_bytes;
        piece->requested_bytes += blocks[i].value;
        free_from = range.end;
    }
    return MT_OK;
}

struct mt_export_tile mt_export_tile_begin(const struct mt_export_piece *piece)
{
    assert(piece->range.begin < piece->range.end);
    return (struct mt_export_tile){.address = piece->range.begin, .next_block = piece->first_block};
}

bool mt_export_tile_next(const struct mt_export_segments *segments, const struct mt_export_piece *piece,
                         struct mt_export_tile *tile)
{
    tile->address += tile->bytes;
    if (tile->address >= piece->range.end)
        return false;
    bool has_block = tile->next_block < piece->first_block + piece->block_count;
    const struct mt_walk_event *block = has_block ? &segments->blocks[tile->next_block] : NULL;
    tile->alloc = block != NULL && block->address == tile->address ? block : NULL;
    if (tile->alloc != NULL) {
        tile->bytes = block->block_bytes;
        tile->next_block++;
        return true;
    }
    tile->bytes = (block != NULL ? block->address : piece->range.end) - tile->address;
    assert(tile->bytes > 0);
    return true;
}
