/* Packing by greed, and by learning from where greed failed.
 *
 * Blocks are placed one after the other, each at the lowest offset that none of those placed before it forbids. All
 * lies in the order. Two are tried: the largest first; and what is live at the peak first, the longest-lived lowest,
 * which leaves one gap and not many. What sticks out of the bound in the better one came too late: it moves forward to
 * half its place in the order, and all are placed again, until the bound is met or the effort spent. The best packing
 * is kept. */
#include "alloc/plan_pack.h"

#include "base/memory.h"
#include "base/order.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROUNDS = 24,
    MOST_COMPARISONS = 400 * 1000 * 1000, /* of a block with one that was placed: about a nanosecond each */
};

/* What is placed, in order of offset; one array for each of its fields, of which most comparisons read two.
 * Invariants: no two that are live at once overlap; the bits of eras are those of the axis's 64 parts in which it
 * lives. */
struct layout {
    uint64_t *offsets, *ends, *eras;
    struct mt_pack_life (*lives)[2];
    size_t count;
    uint64_t end_bytes;   /* the highest end */
    uint64_t comparisons; /* ever */
    uint32_t era_moments; /* how long a part of the axis is */
};

/* Where a block stands in an order. */
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

static bool meet(struct mt_pack_life a, struct mt_pack_life b)
{
    return a.from < b.until && b.from < a.until;
}

/* Empty second lives, which are at moment 0, meet nothing. */
static bool live_at_once(const struct mt_pack_life a[2], const struct mt_pack_life b[2])
{
    return meet(a[0], b[0]) || meet(a[0], b[1]) || meet(a[1], b[0]) || meet(a[1], b[1]);
}

/* The bits from that of one era to that of another. */
static uint64_t bits_between(uint32_t from, uint32_t to)
{
    return UINT64_MAX << from & UINT64_MAX >> (63 - to);
}

static uint64_t eras_of(const struct layout *layout, const struct mt_pack_life lives[2])
{
    uint64_t eras = 0;
    for (int i = 0; i < 2; i++)
        if (lives[i].until > lives[i].from)
            eras |= bits_between(lives[i].from / layout->era_moments, (lives[i].until - 1) / layout->era_moments);
    return eras;
}

/* The lowest offset at which `block` overlaps nothing that is live when it is. */
static uint64_t lowest_offset(struct layout *layout, const struct mt_pack_block *block, uint64_t eras)
{
    uint64_t offset = 0;
    size_t i = 0;
    for (; i < layout->count && layout->offsets[i] < offset + block->bytes; i++)
        if ((layout->eras[i] & eras) != 0 && live_at_once(layout->lives[i], block->lives) && layout->ends[i] > offset)
            offset = layout->ends[i];
    layout->comparisons += i;
    return offset;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* How many were placed at offsets below `offset`. */
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

/* Makes room for an element at `at` of an array of `count`. */
static void open_gap(void *array, size_t size, size_t at, size_t count)
{
    char *bytes = array;
    memmove(bytes + (at + 1) * size, bytes + at * size, (count - at) * size);
}

/* Adds a block that has its offset. */
static void add(struct layout *layout, const struct mt_pack_block *block, uint64_t eras)
{
    size_t at = count_below(layout, block->offset);
    open_gap(layout->offsets, sizeof *layout->offsets, at, layout->count);
    open_gap(layout->ends, sizeof *layout->ends, at, layout->count);
    open_gap(layout->eras, sizeof *layout->eras, at, layout->count);
    open_gap(layout->lives, sizeof *layout->lives, at, layout->count);
    layout->offsets[at] = block->offset;
    layout->ends[at] = block->offset + block->bytes;
    layout->eras[at] = eras;
    memcpy(layout->lives[at], block->lives, sizeof block->lives);
    layout->count++;
    layout->end_bytes = larger(layout->end_bytes, layout->ends[at]);
}

static void place_in_order(struct layout *layout, struct mt_pack_block *blocks, const struct rank *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mt_pack_block *block = &blocks[order[i].block];
        uint64_t eras = eras_of(layout, block->lives);
        block->offset = lowest_offset(layout, block, eras);
        add(layout, block, eras);
    }
}

static uint32_t last_moment(const struct mt_pack_block *blocks, size_t count)
{
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++)
        for (int life = 0; life < 2; life++)
            if (blocks[i].lives[life].until > last)
                last = blocks[i].lives[life].until;
    return last;
}

/* The most that is live at once, and in *out_moment the first moment when it is. */
static uint64_t find_peak(const struct mt_pack_block *blocks, size_t count, uint32_t *out_moment)
{
    uint32_t last = last_moment(blocks, count);
    uint64_t *change = mt_host_alloc(((size_t)last + 1) * sizeof *change); /* wraps around where it is negative */
    for (size_t i = 0; i < count; i++)
        for (int life = 0; life < 2; life++) {
            change[blocks[i].lives[life].from] += blocks[i].bytes;
            change[blocks[i].lives[life].until] -= blocks[i].bytes;
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
    free(change);
    return peak;
}

uint64_t mt_pack_peak(const struct mt_pack_block *blocks, size_t count)
{
    uint32_t moment;
    return find_peak(blocks, count, &moment);
}

static uint64_t lifetime(const struct mt_pack_block *block)
{
    return (uint64_t)(block->lives[0].until - block->lives[0].from) + (block->lives[1].until - block->lives[1].from);
}

/* The largest first, then the longest-lived. */
static void rank_by_size(const struct mt_pack_block *blocks, size_t begin, size_t end, struct rank *out)
{
    for (size_t i = begin; i < end; i++)
        out[i - begin] = (struct rank){UINT64_MAX - blocks[i].bytes, UINT64_MAX - lifetime(&blocks[i]), (uint32_t)i};
    qsort(out, end - begin, sizeof *out, compare_ranks);
}

/* What is live at the peak first, of that the longest-lived; then the largest. */
static void rank_by_peak(const struct mt_pack_block *blocks, size_t count, struct rank *out)
{
    uint32_t moment;
    find_peak(blocks, count, &moment);
    const struct mt_pack_life peak = {moment, moment + 1};
    for (size_t i = 0; i < count; i++) {
        const struct mt_pack_block *block = &blocks[i];
        bool at_peak = meet(block->lives[0], peak) || meet(block->lives[1], peak);
        uint64_t size = UINT64_MAX / 2 - block->bytes / 2, age = UINT64_MAX - lifetime(block);
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
    layout.lives = mt_host_alloc((count + 1) * sizeof *layout.lives);
    return layout;
}

static void layout_destroy(struct layout *layout)
{
    free(layout->offsets);
    free(layout->ends);
    free(layout->eras);
    free(layout->lives);
}

/* Moves what ends above `enough_bytes` forward to half its place in the order. */
static void learn(const struct mt_pack_block *blocks, size_t count, uint64_t enough_bytes, struct rank *order)
{
    for (size_t i = 0; i < count; i++) {
        const struct mt_pack_block *block = &blocks[order[i].block];
        bool sticks_out = block->offset + block->bytes > enough_bytes;
        order[i].first = sticks_out ? 2 * i : 4 * i + 1;
        order[i].second = 0;
    }
    qsort(order, count, sizeof *order, compare_ranks);
}

/* A search for the order that packs best. Invariant: best_offsets are those of a packing of best_bytes. */
struct search {
    struct mt_pack_block *blocks;
    size_t count;
    uint64_t enough_bytes;
    struct layout layout;
    uint64_t best_bytes;
    uint64_t *best_offsets;
};

/* Places all blocks in an order; true if they were never packed better. */
static bool try_order(struct search *search, const struct rank *order)
{
    struct layout *layout = &search->layout;
    layout->count = 0;
    layout->end_bytes = 0;
    place_in_order(layout, search->blocks, order, search->count);
    if (layout->end_bytes >= search->best_bytes)
        return false;
    search->best_bytes = layout->end_bytes;
    for (size_t i = 0; i < search->count; i++)
        search->best_offsets[i] = search->blocks[i].offset;
    return true;
}

static bool goes_on(const struct search *search)
{
    return search->best_bytes > search->enough_bytes && search->layout.comparisons < MOST_COMPARISONS;
}

/* Gives the blocks the offsets of the best packing so far. */
static void restore_best(struct search *search)
{
    for (size_t i = 0; i < search->count; i++)
        search->blocks[i].offset = search->best_offsets[i];
}

/* Learns from the best packing so far, which had this order, and goes on from what comes of it. */
static void improve(struct search *search, struct rank *order)
{
    restore_best(search);
    for (int round = 0; round < MOST_ROUNDS && goes_on(search); round++) {
        learn(search->blocks, search->count, search->enough_bytes, order);
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

/* Of what is placed already only that counts which lives before the last of the others is gone. */
uint64_t mt_pack_around(struct mt_pack_block *blocks, size_t placed_count, size_t count)
{
    struct layout layout = layout_create(blocks, count);
    struct rank *order = mt_host_alloc((count - placed_count + 1) * sizeof *order);
    uint32_t last = last_moment(&blocks[placed_count], count - placed_count);
    uint64_t end_bytes = 0;
    for (size_t i = 0; i < placed_count; i++) {
        end_bytes = larger(end_bytes, blocks[i].offset + blocks[i].bytes);
        if (blocks[i].lives[0].from < last)
            add(&layout, &blocks[i], eras_of(&layout, blocks[i].lives));
    }
    rank_by_size(blocks, placed_count, count, order);
    place_in_order(&layout, blocks, order, count - placed_count);
    end_bytes = larger(end_bytes, layout.end_bytes);
    free(order);
    layout_destroy(&layout);
    return end_bytes;
}
