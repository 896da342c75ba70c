/* The begins and ends of the lifetimes are sorted by position, then allocated and freed in that order. The device is
 * simulated, so an allocation costs only the policy's own work, and the sink discards its events. */
#include "analysis/replay.h"

#include "base/memory.h"
#include "run/live_run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

mt_category mt_category_of_label(const struct mt_label_row *label)
{
    for (mt_category category = 0; category < MT_CATEGORY_COUNT; category++)
        if (strcmp(label->category, mt_category_name(category)) == 0)
            return category;
    return MT_CATEGORY_WORKSPACE;
}

/* The begin or the end of a lifetime. */
struct edge {
    uint64_t key;   /* sort key: the position relative to the earliest one; ends sort before begins */
    uint64_t index; /* of the lifetime */
};

static bool is_begin(const struct edge *edge)
{
    return (edge->key & 1) != 0;
}

/* Edges in order; edges with equal keys keep the order of their lifetimes. Ends that never come are left out. */
struct edges {
    struct edge *items;
    size_t count;
    int64_t first;    /* position of the earliest edge; 0 if there is none */
    uint64_t highest; /* key */
};

/* Returns the edge's position relative to the earliest one. */
static uint64_t offset_of(const struct edge *edge)
{
    return edge->key >> 1;
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static int64_t earliest(const struct mt_lifetime *lifetimes, size_t count)
{
    int64_t position = MT_POSITION_NEVER;
    for (size_t i = 0; i < count; i++)
        if (lifetimes[i].begin < position)
            position = lifetimes[i].begin;
    return position;
}

/* Lists the edges in the order of the lifetimes. */
static void list_edges(const struct mt_lifetime *lifetimes, size_t count, struct edges *edges)
{
    edges->first = earliest(lifetimes, count);
    uint64_t first = (uint64_t)edges->first, highest = 0;
    for (size_t i = 0; i < count; i++) {
        assert(lifetimes[i].begin < lifetimes[i].end);
        uint64_t begin = ((uint64_t)lifetimes[i].begin - first) << 1 | 1;
        uint64_t end = ((uint64_t)lifetimes[i].end - first) << 1;
        edges->items[edges->count++] = (struct edge){.key = begin, .index = i};
        if (begin > highest)
            highest = begin;
        if (lifetimes[i].end == MT_POSITION_NEVER)
            continue;
        edges->items[edges->count++] = (struct edge){.key = end, .index = i};
        if (end > highest)
            highest = end;
    }
    edges->highest = highest;
}

/* Sets the index at which the edges of each digit begin. */
static void place_digits(const struct edge *edges, size_t count, int shift, size_t place[DIGITS])
{
    for (size_t digit = 0; digit < DIGITS; digit++)
        place[digit] = 0;
    for (size_t i = 0; i < count; i++)
        place[edges[i].key >> shift & (DIGITS - 1)]++;
    size_t before = 0;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t of_digit = place[digit];
        place[digit] = before;
        before += of_digit;
    }
}

static void sort_by_digit(const struct edge *from, size_t count, int shift, struct edge *to)
{
    size_t place[DIGITS];
    place_digits(from, count, shift, place);
    for (size_t i = 0; i < count; i++)
        to[place[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

/* Radix sort of `edges`, least significant digit first, with `other` as scratch memory. Returns the array with the
 * result. Linear in the count for positions that are about as dense as events; stable, so the lifetimes' order decides
 * ties. */
static struct edge *sort(struct edge *edges, struct edge *other, size_t count, uint64_t highest)
{
    for (int shift = 0; shift < 64 && highest >> shift != 0; shift += DIGIT_BITS) {
        sort_by_digit(edges, count, shift, other);
        struct edge *sorted = other;
        other = edges;
        edges = sorted;
    }
    return edges;
}

/* Release in any case. */
static void edges_create(const struct mt_lifetime *lifetimes, size_t count, struct edges *out)
{
    *out = (struct edges){0};
    if (count == 0)
        return;
    struct edge *listed = mt_host_resize(NULL, 2 * count, sizeof *listed);
    struct edge *room = mt_host_resize(NULL, 2 * count, sizeof *room);
    out->items = listed;
    list_edges(lifetimes, count, out);
    out->items = sort(listed, room, out->count, out->highest);
    free(out->items == listed ? room : listed);
}

static void edges_release(struct edges *edges)
{
    free(edges->items);
    *edges = (struct edges){0};
}

/* An allocator on a simulated device. */
struct replay {
    struct mt_device *device;
    struct mt_live_run *run;
    struct mt_alloc *alloc;   /* of `run` */
    struct mt_block **blocks; /* by lifetime; NULL before it is allocated */
};

static mt_status replay_open(struct replay *replay, size_t count, const struct mt_alloc_settings *settings,
                             uint64_t capacity_bytes)
{
    *replay = (struct replay){0};
    MT_TRY(mt_device_open_simulated(NULL, capacity_bytes, &replay->device));
    replay->blocks = mt_host_alloc((count > 0 ? count : 1) * sizeof(struct mt_block *));
    const struct mt_live_settings untraced = {.device = replay->device, .alloc = settings};
    MT_TRY(mt_live_run_open(&untraced, &replay->run));
    replay->alloc = mt_live_run_alloc(replay->run);
    return MT_OK;
}

static void replay_close(struct replay *replay)
{
    (void)mt_live_run_close(replay->run, MT_RUN_DONE);
    free(replay->blocks);
    if (replay->device != NULL)
        mt_device_close(replay->device);
}

/* Policies use only a label's category. */
static mt_label_id label_of(const struct mt_lifetime *lifetime)
{
    return (mt_label_id)lifetime->category << MT_LABEL_NUMBER_BITS | 1;
}

/* Allocates or frees the block of the lifetime. Fails with MT_OUT_OF_MEMORY if it can't be allocated. Lifetimes of 0
 * bytes, which occur in imported traces, have no block. */
static mt_status apply(struct replay *replay, const struct mt_lifetime *lifetime, const struct edge *edge)
{
    struct mt_block **block = &replay->blocks[edge->index];
    assert(is_begin(edge) ? *block == NULL : *block != NULL || lifetime->requested_bytes == 0);
    if (!is_begin(edge)) {
        mt_alloc_give(replay->alloc, *block);
        return MT_OK;
    }
    if (lifetime->requested_bytes == 0)
        return MT_OK;
    return mt_alloc_take(replay->alloc, lifetime->requested_bytes, lifetime->stream, label_of(lifetime), 0, block);
}

/* Blocks are freed long after their allocation, when they have left the caches, so they are prefetched. */
enum { EDGES_AHEAD = 16 };

static void prefetch(const struct replay *replay, const struct edges *edges, size_t at)
{
    if (at + 2 * EDGES_AHEAD < edges->count)
        __builtin_prefetch(&replay->blocks[edges->items[at + 2 * EDGES_AHEAD].index]);
    if (at + EDGES_AHEAD < edges->count)
        __builtin_prefetch(replay->blocks[edges->items[at + EDGES_AHEAD].index]);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct mt_replay_curve begin_curve(const struct edges *edges)
{
    return (struct mt_replay_curve){.first = edges->first, .width = (edges->highest >> 1) / MT_REPLAY_BINS + 1};
}

/* Ends a bin of the curve. The allocator tracks its peaks since the previous bin, so edges need not be counted one by
 * one. */
static void end_bin(struct replay *replay, struct mt_replay_result *out)
{
    struct mt_replay_curve *curve = &out->curve;
    struct mt_alloc_stats stats;
    mt_alloc_stats(replay->alloc, &stats);
    mt_alloc_reset_peaks(replay->alloc);
    assert(curve->count < MT_REPLAY_BINS);
    curve->allocated_bytes[curve->count] = stats.all.peak_allocated_bytes;
    curve->reserved_bytes[curve->count++] = stats.peak_reserved_bytes;
    out->requested_bytes = larger(out->requested_bytes, stats.all.peak_requested_bytes);
    out->allocated_bytes = larger(out->allocated_bytes, stats.all.peak_allocated_bytes);
    out->reserved_bytes = larger(out->reserved_bytes, stats.peak_reserved_bytes);
}

/* Returns cached memory to the device if a release is due, and drops the releases until then. */
static void release_until(struct replay *replay, int64_t position, struct mt_replay_releases *releases)
{
    if (releases->count == 0 || releases->positions[0] > position)
        return;
    mt_alloc_release_cached(replay->alloc);
    while (releases->count > 0 && releases->positions[0] <= position) {
        releases->positions++;
        releases->count--;
    }
}

/* Allocates and frees in order; sets the complete result. */
static mt_status apply_all(struct replay *replay, const struct mt_lifetime *lifetimes, size_t count,
                           struct mt_replay_releases releases, struct mt_replay_result *out)
{
    struct edges edges;
    edges_create(lifetimes, count, &edges);
    out->curve = begin_curve(&edges);
    mt_status status = MT_OK;
    for (size_t i = 0; i < edges.count && status == MT_OK; i++) {
        const struct edge *edge = &edges.items[i];
        prefetch(replay, &edges, i);
        while (out->curve.count < offset_of(edge) / out->curve.width)
            end_bin(replay, out);
        release_until(replay, edges.first + (int64_t)offset_of(edge), &releases);
        status = apply(replay, &lifetimes[edge->index], edge);
        if (status == MT_OUT_OF_MEMORY)
            out->unmet = edge->index;
    }
    end_bin(replay, out);
    out->fits = status == MT_OK;
    assert(out->requested_bytes <= out->allocated_bytes && out->allocated_bytes <= out->reserved_bytes);
    edges_release(&edges);
    return status == MT_OUT_OF_MEMORY ? MT_OK : status;
}

mt_status mt_replay_run_releasing(const struct mt_lifetime *lifetimes, size_t count, struct mt_replay_releases releases,
                                  const struct mt_alloc_settings *settings, uint64_t capacity_bytes,
                                  struct mt_replay_result *out)
{
    struct replay replay;
    *out = (struct mt_replay_result){0};
    mt_status status = replay_open(&replay, count, settings, capacity_bytes);
    MT_THEN(status, apply_all(&replay, lifetimes, count, releases, out));
    replay_close(&replay);
    return status;
}

mt_status mt_replay_run(const struct mt_lifetime *lifetimes, size_t count, const struct mt_alloc_settings *settings,
                        uint64_t capacity_bytes, struct mt_replay_result *out)
{
    return mt_replay_run_releasing(lifetimes, count, (struct mt_replay_releases){0}, settings, capacity_bytes, out);
}
