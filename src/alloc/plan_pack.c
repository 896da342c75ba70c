/* Greedy packing, repeated in better orders.
 *
 * Blocks are placed one after the other, each at the lowest offset where it does not overlap any placed block that is
 * live at the same time. The result depends only on the order. Two orders are tried: largest blocks first; and blocks
 * that are live at the peak first, with the longest-lived at the bottom, which leaves one gap instead of many. In the
 * better order, a block that ends above the bound was placed too late: it moves forward to half its position in the
 * order, and all blocks are placed again, until the bound is reached or the effort is used up. The best packing is
 * kept. */
#include "alloc/plan_pack.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROUNDS = 24,
    MOST_COMPARISONS = 400 * 1000 * 1000, /* of a block with a placed one; each takes about a nanosecond */
};

/* The placed blocks, ordered by offset. Each field has its own array, because most comparisons read only two fields.
 * Invariants: no two blocks that are live at the same time overlap; time is divided into 64 eras, and eras[i] has a bit
 * for each era in which block i is live. */
struct layout {
    uint64_t *offsets, *ends, *eras;
    struct mt_pack_lifetime (*lifetimes)[2];
    size_t count;
    uint64_t end_bytes;   /* the highest end */
    uint64_t comparisons; /* of all packings so far */
    uint32_t era_moments; /* the length of an era */
};

/* A block with its sort keys in an order. */
struct rank {
    uint64_t first, second; /* ascending */
    uint32_t block;
};

static int compare_ranks(const void *left, const void *right)
{
    const struct rank *a = left, *b = right;
    int order = MT_COMPARE(a->first, b->first);
    if (order == 0)
        order = MT_COMPARE(a->second, b->second);
    return order != 0 ? order : MT_COMPARE(a->block, b->block);
}

/* True if two lifetimes overlap. */
static bool meet(struct mt_pack_lifetime a, struct mt_pack_lifetime b)
{
    return a.from < b.until && b.from < a.until;
}

/* True if two blocks are live at the same time. An empty lifetime is at moment 0 and overlaps none. */
static bool live_at_once(const struct mt_pack_lifetime a[2], const struct mt_pack_lifetime b[2])
{
    return meet(a[0], b[0]) || meet(a[0], b[1]) || meet(a[1], b[0]) || meet(a[1], b[1]);
}

/* Returns the bits of all eras from one to another. */
static uint64_t bits_between(uint32_t from, uint32_t to)
{
    assert(from <= to && to < 64);
    return UINT64_MAX << from & UINT64_MAX >> (63 - to);
}

static uint64_t eras_of(const struct layout *layout, const struct mt_pack_lifetime lifetimes[2])
{
    uint64_t eras = 0;
    for (int i = 0; i < 2; i++)
        if (lifetimes[i].until > lifetimes[i].from)
            eras |=
                bits_between(lifetimes[i].from / layout->era_moments, (lifetimes[i].until - 1) / layout->era_moments);
    return eras;
}

/* Returns the lowest offset at which `block` overlaps no placed block that is live at the same time. */
static uint64_t lowest_offset(struct layout *layout, const struct mt_pack_block *block, uint64_t eras)
{
    uint64_t offset = 0;
    size_t i = 0;
    for (; i < layout->count && layout->offsets[i] < offset + block->bytes; i++)
        if ((layout->eras[i] & eras) != 0 && live_at_once(layout->lifetimes[i], block->lifetimes) &&
            layout->ends[i] > offset)
            offset = layout->ends[i];
    layout->comparisons += i;
    return offset;
}

/* Returns the number of placed blocks with offsets below `offset`. */
static size_t count_below(const struct layout *layout, uint64_t offset)
{
    size_t low = 0, high = layout->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (layout->offsets[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes room for an element at index `at` of an array of `count`. */
static void open_gap(void *array, size_t size, size_t at, size_t count)
{
    char *bytes = array;
    memmove(bytes + (at + 1) * size, bytes + at * size, (count - at) * size);
}

/* Adds a block at its offset. */
static void add(struct layout *layout, const struct mt_pack_block *block, uint64_t eras)
{
    size_t at = count_below(layout, block->offset);
    assert(at <= layout->count && block->bytes > 0);
    open_gap(layout->offsets, sizeof *layout->offsets, at, layout->count);
    open_gap(layout->ends, sizeof *layout->ends, at, layout->count);
    open_gap(layout->eras, sizeof *layout->eras, at, layout->count);
    open_gap(layout->lifetimes, sizeof *layout->lifetimes, at, layout->count);
    layout->offsets[at] = block->offset;
    layout->ends[at] = block->offset + block->bytes;
    layout->eras[at] = eras;
    memcpy(layout->lifetimes[at], block->lifetimes, sizeof block->lifetimes);
    layout->count++;
    layout->end_bytes = mt_larger(layout->end_bytes, layout->ends[at]);
}

static void place_in_order(struct layout *layout, struct mt_pack_block *blocks, const struct rank *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mt_pack_block *block = &blocks[order[i].block];
        uint64_t eras = eras_of(layout, block->lifetimes);
        block->offset = lowest_offset(layout, block, eras);
        add(layout, block, eras);
    }
}

static uint32_t last_moment(const struct mt_pack_block *blocks, size_t count)
{
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++)
        for (int j = 0; j < 2; j++)
            last = (uint32_t)mt_larger(last, blocks[i].lifetimes[j].until);
    return last;
}

/* Returns the peak of live bytes, and sets *out_moment to the first moment with it. */
static uint64_t find_peak(const struct mt_pack_block *blocks, size_t count, uint32_t *out_moment)
{
    uint32_t last = last_moment(blocks, count);
    uint64_t *change = mt_host_alloc(((size_t)last + 1) * sizeof *change); /* wraps around if negative */
    for (size_t i = 0; i < count; i++)
        for (int j = 0; j < 2; j++) {
            change[blocks[i].lifetimes[j].from] += blocks[i].bytes;
            change[blocks[i].lifetimes[j].until] -= blocks[i].bytes;
        }
    uint64_t live = 0, peak = 0;
    *out_moment = 0;
    for (uint32_t moment = 0; moment < last; moment++) {
        live += change[moment];
        if (live > peak) {
            peak = live;
            *out_moment = moment;
        }
    }
    assert(live + change[last] == 0); /* every block was freed */
    free(change);
    return peak;
}

uint64_t mt_pack_peak(const struct mt_pack_block *blocks, size_t count)
{
    uint32_t moment;
    return find_peak(blocks, count, &moment);
}

static uint64_t total_lifetime(const struct mt_pack_block *block)
{
    return (uint64_t)(block->lifetimes[0].until - block->lifetimes[0].from) +
           (block->lifetimes[1].until - block->lifetimes[1].from);
}

/* Ranks the largest blocks first; equal ones by lifetime, longest first. */
static void rank_by_size(const struct mt_pack_block *blocks, size_t begin, size_t end, struct rank *out)
{
    for (size_t i = begin; i < end; i++)
        out[i - begin] =
            (struct rank){UINT64_MAX - blocks[i].bytes, UINT64_MAX - total_lifetime(&blocks[i]), (uint32_t)i};
    qsort(out, end - begin, sizeof *out, compare_ranks);
}

/* Ranks the blocks that are live at the peak first, by lifetime, longest first; then the others, largest first. */
static void rank_by_peak(const struct mt_pack_block *blocks, size_t count, struct rank *out)
{
    uint32_t moment;
    find_peak(blocks, count, &moment);
    const struct mt_pack_lifetime peak = {moment, moment + 1};
    for (size_t i = 0; i < count; i++) {
        const struct mt_pack_block *block = &blocks[i];
        bool at_peak = meet(block->lifetimes[0], peak) || meet(block->lifetimes[1], peak);
        uint64_t size = UINT64_MAX / 2 - block->bytes / 2, age = UINT64_MAX - total_lifetime(block);
        out[i] = at_peak ? (struct rank){0, age, (uint32_t)i} : (struct rank){1 + size, age, (uint32_t)i};
    }
    qsort(out, count, sizeof *out, compare_ranks);
}

static struct layout layout_create(const struct mt_pack_block *blocks, size_t count)
{
    struct layout layout = {.era_moments = last_moment(blocks, count) / 64 + 1};
    layout.offsets = mt_host_alloc((count + 1) * sizeof *layout.offsets);
    layout.ends = mt_host_alloc((count + 1) * sizeof *layout.ends);
    layout.eras = mt_host_alloc((count + 1) * sizeof *layout.eras);
    layout.lifetimes = mt_host_alloc((count + 1) * sizeof *layout.lifetimes);
    return layout;
}

static void layout_destroy(struct layout *layout)
{
    free(layout->offsets);
    free(layout->ends);
    free(layout->eras);
    free(layout->lifetimes);
}

/* Moves the blocks that end above `enough_bytes` forward to half their positions in the order. */
static void reorder(const struct mt_pack_block *blocks, size_t count, uint64_t enough_bytes, struct rank *order)
{
    for (size_t i = 0; i < count; i++) {
        const struct mt_pack_block *block = &blocks[order[i].block];
        bool is_too_high = block->offset + block->bytes > enough_bytes;
        order[i].first = is_too_high ? 2 * i : 4 * i + 1;
        order[i].second = 0;
    }
    qsort(order, count, sizeof *order, compare_ranks);
}

/* A search for the best order. Invariant: best_offsets belong to a packing of best_bytes. */
struct search {
    struct mt_pack_block *blocks;
    size_t count;
    uint64_t enough_bytes;
    struct layout layout;
    uint64_t best_bytes;
    uint64_t *best_offsets;
};

/* Places all blocks in an order; true if the result is the best packing so far. */
static bool try_order(struct search *search, const struct rank *order)
{
    struct layout *layout = &search->layout;
    layout->count = 0;
    layout->end_bytes = 0;
    place_in_order(layout, search->blocks, order, search->count);
    if (layout->end_bytes >= search->best_bytes)
        return false;
    assert(layout->count == search->count);
    search->best_bytes = layout->end_bytes;
    for (size_t i = 0; i < search->count; i++)
        search->best_offsets[i] = search->blocks[i].offset;
    return true;
}

static bool goes_on(const struct search *search)
{
    return search->best_bytes > search->enough_bytes && search->layout.comparisons < MOST_COMPARISONS;
}

/* Sets the offsets of the blocks to the best packing so far. */
static void restore_best(struct search *search)
{
    for (size_t i = 0; i < search->count; i++)
        search->blocks[i].offset = search->best_offsets[i];
}

/* Repeatedly reorders the best packing so far, which had this order. */
static void improve(struct search *search, struct rank *order)
{
    restore_best(search);
    for (int round = 0; round < MOST_ROUNDS && goes_on(search); round++) {
        reorder(search->blocks, search->count, search->enough_bytes, order);
        try_order(search, order);
    }
}

uint64_t mt_pack(struct mt_pack_block *blocks, size_t count, uint64_t enough_bytes)
{
    struct search search = {.blocks = blocks,
                            .count = count,
                            .enough_bytes = enough_bytes,
                            .layout = layout_create(blocks, count),
                            .best_bytes = UINT64_MAX,
                            .best_offsets = mt_host_alloc((count + 1) * sizeof *search.best_offsets)};
    struct rank *by_size = mt_host_alloc((count + 1) * sizeof *by_size);
    struct rank *by_peak = mt_host_alloc((count + 1) * sizeof *by_peak);
    rank_by_size(blocks, 0, count, by_size);
    rank_by_peak(blocks, count, by_peak);
    try_order(&search, by_size);
    bool peak_is_better = goes_on(&search) && try_order(&search, by_peak);
    improve(&search, peak_is_better ? by_peak : by_size);
    restore_best(&search);
    layout_destroy(&search.layout);
    free(by_size);
    free(by_peak);
    free(search.best_offsets);
    return search.best_bytes;
}

/* Of the blocks that have places, only those matter that are live before the last of the others is freed. */
uint64_t mt_pack_around(struct mt_pack_block *blocks, size_t placed_count, size_t count)
{
    assert(placed_count <= count);
    struct layout layout = layout_create(blocks, count);
    struct rank *order = mt_host_alloc((count - placed_count + 1) * sizeof *order);
    uint32_t last = last_moment(&blocks[placed_count], count - placed_count);
    uint64_t end_bytes = 0;
    for (size_t i = 0; i < placed_count; i++) {
        end_bytes = mt_larger(end_bytes, blocks[i].offset + blocks[i].bytes);
        if (blocks[i].lifetimes[0].from < last)
            add(&layout, &blocks[i], eras_of(&layout, blocks[i].lifetimes));
    }
    rank_by_size(blocks, placed_count, count, order);
    place_in_order(&layout, blocks, order, count - placed_count);
    end_bytes = mt_larger(end_bytes, layout.end_bytes);
    free(order);
    layout_destroy(&layout);
    return end_bytes;
}
