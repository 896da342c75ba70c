/* The live blocks, put in the order of their places, are walked along the memory of the segments once. */
#include "analysis/holes.h"

#include "base/memory.h"

#include <stdlib.h>

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
        if (mt_block_is_live(&layout->blocks[i], event))
            live[(*out_count)++] = &layout->blocks[i];
    qsort(live, *out_count, sizeof(struct mt_block_row *), compare_places);
    return live;
}

/* Where the walk along a segment is. Invariants: what of its memory lies before `at` was looked at, and [hole, at) is free;
 * the blocks before `next` begin before `at`. */
struct walk {
    struct mt_segment_holes *found;
    uint64_t *holes; /* found->holes */
    uint64_t hole, at;
    size_t next;
};

/* Enters the hole that ends here, if there is one. */
static void end_hole(struct walk *walk)
{
    struct mt_segment_holes *found = walk->found;
    if (walk->at == walk->hole)
        return;
    uint64_t bytes = walk->at - walk->hole;
    walk->holes[found->hole_count++] = bytes;
    found->hole_bytes += bytes;
    if (bytes > found->largest_bytes)
        found->largest_bytes = bytes;
}

/* Goes on from `offset`, if that is not behind: what lies between has no memory, or belongs to a block. */
static void skip_to(struct walk *walk, uint64_t offset)
{
    if (offset <= walk->at)
        return;
    end_hole(walk);
    walk->hole = walk->at = offset;
}

/* Goes along memory up to `end`: what is not of a block is free. Blocks of a damaged trace may overlap. */
static void walk_to(struct walk *walk, uint64_t end)
{
    const struct mt_segment_holes *found = walk->found;
    for (; walk->next < found->block_count && found->blocks[walk->next]->offset < end; walk->next++) {
        const struct mt_block_row *block = found->blocks[walk->next];
        walk->at = block->offset > walk->at ? block->offset : walk->at;
        skip_to(walk, block->offset + block->block_bytes);
    }
    walk->at = end > walk->at ? end : walk->at;
}

/* Fills what is said of a segment beyond its blocks: looks at the parts from `*part` on, and moves it behind those of the
 * segment. `holes` has room for as many as these and the blocks. */
static void measure(const struct mt_layout *layout, int64_t event, size_t *part, struct mt_segment_holes *found,
                    uint64_t *holes)
{
    struct walk walk = {.found = found, .holes = holes};
    for (; *part < layout->part_count && layout->parts[*part].segment == found->segment->number; ++*part) {
        const struct mt_part_row *memory = &layout->parts[*part];
        if (!mt_part_has_memory(memory, event))
            continue;
        found->mapped_bytes += memory->bytes;
        skip_to(&walk, memory->offset);
        walk_to(&walk, memory->offset + memory->bytes);
    }
    end_hole(&walk);
    for (size_t i = 0; i < found->block_count; i++)
        found->allocated_bytes += found->blocks[i]->block_bytes;
    found->holes = holes;
}

void mt_holes_visit(const struct mt_layout *layout, int64_t event, const struct mt_hole_visitor *visitor)
{
    size_t count, at = 0, part = 0;
    const struct mt_block_row **live = list_live(layout, event, &count);
    uint64_t *holes = mt_host_alloc((count + layout->part_count + 1) * sizeof *holes);
    for (size_t i = 0; i < layout->segment_count; i++) {
        size_t first = at;
        while (at < count && live[at]->segment == i)
            at++;
        struct mt_segment_holes found = {
            .segment = &layout->segments[i], .blocks = live + first, .block_count = at - first};
        measure(layout, event, &part, &found, holes);
        if (found.mapped_bytes > 0)
            visitor->visit(visitor->context, &found);
    }
    free(holes);
    free(live);
}
