/* The parts are a treap: a search tree by place with random priorities, so that it is shallow for any order of
 * insertion. All operations consist of two: splitting a tree at a place, and joining two trees, one entirely before the
 * other. */
#include "trace/store/parts.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"

#include <assert.h>
#include <stdlib.h>

/* Freed nodes are chained through `left` from `mt_parts.free`. */
struct mt_part_node {
    struct mt_part part; /* unmapped_event 0 */
    uint32_t left, right;
};

/* The beginning of a part. */
struct place {
    uint32_t segment;
    uint64_t offset;
};

void mt_parts_create(struct mt_parts *parts)
{
    *parts = (struct mt_parts){.used = 1, .seed = mt_clock_ns()};
    parts->nodes = mt_host_alloc(sizeof *parts->nodes);
}

void mt_parts_release(struct mt_parts *parts)
{
    free(parts->nodes);
    free(parts->rows);
    *parts = (struct mt_parts){0};
}

static void add_row(struct mt_parts *parts, struct mt_part row)
{
    *MT_HOST_ADD(parts->rows, parts->row_count) = row;
}

static uint32_t new_node(struct mt_parts *parts, struct mt_part part)
{
    uint32_t node = parts->free;
    if (node != 0)
        parts->free = parts->nodes[node].left;
    else {
        parts->nodes = mt_host_room(parts->nodes, parts->used, sizeof *parts->nodes);
        node = parts->used++;
    }
    parts->nodes[node] = (struct mt_part_node){.part = part};
    return node;
}

/* True if `node` has a higher priority than `other`. */
static bool is_above(const struct mt_parts *parts, uint32_t node, uint32_t other)
{
    return mt_splitmix64(parts->seed + node) > mt_splitmix64(parts->seed + other);
}

static bool begins_before(const struct mt_part *part, struct place place)
{
    return part->segment != place.segment ? part->segment < place.segment : part->offset < place.offset;
}

/* Joins two trees. Every part of `low` comes before every part of `high`. */
static uint32_t join(struct mt_parts *parts, uint32_t low, uint32_t high)
{
    if (low == 0 || high == 0)
        return low + high;
    if (is_above(parts, low, high)) {
        parts->nodes[low].right = join(parts, parts->nodes[low].right, high);
        return low;
    }
    parts->nodes[high].left = join(parts, low, parts->nodes[high].left);
    return high;
}

/* Splits a tree into the parts that begin before the place, and the rest. */
static void split(struct mt_parts *parts, uint32_t tree, struct place place, uint32_t *low, uint32_t *high)
{
    *low = *high = tree;
    if (tree == 0)
        return;
    struct mt_part_node *node = &parts->nodes[tree];
    if (begins_before(&node->part, place))
        split(parts, node->right, place, &node->right, high);
    else
        split(parts, node->left, place, low, &node->left);
}

static void insert(struct mt_parts *parts, struct mt_part part)
{
    uint32_t low, high, node = new_node(parts, part);
    assert(part.bytes > 0 && part.unmapped_event == 0);
    split(parts, parts->root, (struct place){part.segment, part.offset}, &low, &high);
    parts->root = join(parts, join(parts, low, node), high);
    add_row(parts, part);
}

/* Returns the last part that begins before the place; 0: none. */
static uint32_t find_before(const struct mt_parts *parts, struct place place)
{
    uint32_t found = 0;
    for (uint32_t node = parts->root; node != 0;) {
        bool before = begins_before(&parts->nodes[node].part, place);
        found = before ? node : found;
        node = before ? parts->nodes[node].right : parts->nodes[node].left;
    }
    return found;
}

/* Divides the part that has memory on both sides of the place, if there is one. */
static void cut(struct mt_parts *parts, struct place place)
{
    uint32_t found = find_before(parts, place);
    struct mt_part *part = &parts->nodes[found].part;
    if (found == 0 || part->segment != place.segment || part->bytes <= place.offset - part->offset)
        return;
    assert(place.offset > part->offset);
    struct mt_part upper = *part;
    part->bytes = place.offset - part->offset;
    upper.offset = place.offset;
    upper.bytes -= part->bytes;
    add_row(parts, *part);
    insert(parts, upper);
}

/* Ends every part of the tree. Returns their bytes. */
static uint64_t end_all(struct mt_parts *parts, uint32_t tree, int64_t event)
{
    if (tree == 0)
        return 0;
    struct mt_part_node *node = &parts->nodes[tree];
    uint64_t bytes = end_all(parts, node->left, event) + node->part.bytes;
    assert(tree < parts->used && node->part.unmapped_event == 0);
    node->part.unmapped_event = event;
    add_row(parts, node->part);
    bytes += end_all(parts, node->right, event);
    node->left = parts->free;
    parts->free = tree;
    return bytes;
}

static uint64_t end_of(struct mt_part part)
{
    return part.bytes < UINT64_MAX - part.offset ? part.offset + part.bytes : UINT64_MAX;
}

uint64_t mt_parts_unmap(struct mt_parts *parts, struct mt_part part, int64_t event)
{
    struct place begin = {part.segment, part.offset}, end = {part.segment, end_of(part)};
    uint32_t below, within, above;
    cut(parts, begin);
    cut(parts, end);
    split(parts, parts->root, begin, &below, &above);
    split(parts, above, end, &within, &above);
    parts->root = join(parts, below, above);
    return end_all(parts, within, event);
}

uint64_t mt_parts_map(struct mt_parts *parts, struct mt_part part)
{
    uint64_t had_memory = mt_parts_unmap(parts, part, part.mapped_event);
    part.bytes = end_of(part) - part.offset;
    assert(had_memory <= part.bytes);
    part.unmapped_event = 0;
    if (part.bytes > 0)
        insert(parts, part);
    return part.bytes - had_memory;
}
