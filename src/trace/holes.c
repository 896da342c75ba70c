/* The live blocks, put in the order of their places, are walked along the segments once. */
#include "trace/holes.h"

#include "base/memory.h"

#include <stdlib.h>

static bool is_live(const struct mt_block_row *block, int64_t event)
{
    return block->alloc_event <= event && (block->free_event == 0 || block->free_event > event);
}

static bool is_mapped(const struct mt_segment_row *segment, int64_t event)
{
    return segment->mapped_event <= event && (segment->unmapped_event == 0 || segment->unmapped_event > event);
}

static int compare_places(const void *left, const void *right)
{
    const struct mt_block_row *a = *(const struct mt_block_row *const *)left;
    const struct mt_block_row *b = *(const struct mt_block_row *const *)right;
    if (a->segment != b->segment)
        return a->segment < b->segment ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* The live blocks by segment, then offset; the caller's. */
static const struct mt_block_row **list_live(const struct mt_layout *layout, int64_t event, size_t *out_count)
{
    const struct mt_block_row **live = mt_host_alloc((layout->block_count + 1) * sizeof(struct mt_block_row *));
    *out_count = 0;
    for (size_t i = 0; i < layout->block_count; i++)
        if (is_live(&layout->blocks[i], event))
            live[(*out_count)++] = &layout->blocks[i];
    qsort(live, *out_count, sizeof(struct mt_block_row *), compare_places);
    return live;
}

/* Enters the hole from `begin` to `end`, if there is one: blocks of a damaged trace may overlap. */
static void add_hole(struct mt_segment_holes *found, uint64_t *holes, uint64_t begin, uint64_t end)
{
    if (end <= begin)
        return;
    uint64_t bytes = end - begin;
    holes[found->hole_count++] = bytes;
    found->hole_bytes += bytes;
    if (bytes > found->largest_bytes)
        found->largest_bytes = bytes;
}

/* Fills what is said of a segment beyond its blocks; `holes` has room for one more than these. */
static void measure(struct mt_segment_holes *found, uint64_t *holes)
{
    uint64_t at = 0;
    for (size_t i = 0; i < found->block_count; i++) {
        const struct mt_block_row *block = found->blocks[i];
        add_hole(found, holes, at, block->offset);
        at = block->offset + block->block_bytes;
        found->allocated_bytes += block->block_bytes;
    }
    add_hole(found, holes, at, found->segment->bytes);
    found->holes = holes;
}

void mt_holes_visit(const struct mt_layout *layout, int64_t event, const struct mt_hole_visitor *visitor)
{
    size_t count, at = 0;
    const struct mt_block_row **live = list_live(layout, event, &count);
    uint64_t *holes = mt_host_alloc((count + 1) * sizeof *holes);
    for (size_t i = 0; i < layout->segment_count; i++) {
        size_t first = at;
        while (at < count && live[at]->segment == i)
            at++;
        if (!is_mapped(&layout->segments[i], event))
            continue;
        struct mt_segment_holes found = {
            .segment = &layout->segments[i], .blocks = live + first, .block_count = at - first};
        measure(&found, holes);
        visitor->visit(visitor->context, &found);
    }
    free(holes);
    free(live);
}
