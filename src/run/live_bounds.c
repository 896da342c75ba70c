#include "run/live_bounds.h"

#include "base/memory.h"
#include "base/order.h"
#include "run/live_run.h"

#include <stdlib.h>

enum ends { AS_COUNTED, LOW, HIGH, ENDS };

/* More than any card has, so no request is refused. */
enum { CAPACITY_BITS = 46 };

/* The peaks of live and of reserved bytes. */
struct peaks {
    uint64_t live, reserved;
};

struct mt_live_bounds {
    struct mt_device *device[ENDS];
    struct mt_live_run *run[ENDS]; /* untraced */
    struct mt_number_map blocks;   /* from the address of the run's block to a struct twin * */
    struct peaks before;           /* of the run, before the first estimate */
};

/* The blocks that stand for one of the run's; NULL where that has no bytes. */
struct twin {
    struct mt_block *blocks[ENDS];
};

static mt_status open_one(struct mt_live_bounds *bounds, const struct mt_alloc_settings *settings, int end)
{
    MT_TRY(mt_device_open_simulated(NULL, (uint64_t)1 << CAPACITY_BITS, &bounds->device[end]));
    const struct mt_live_settings untraced = {.device = bounds->device[end], .alloc = settings};
    return mt_live_run_open(&untraced, &bounds->run[end]);
}

void mt_live_bounds_destroy(struct mt_live_bounds *bounds)
{
    if (bounds == NULL)
        return;
    for (size_t i = 0; i <= bounds->blocks.mask; i++)
        if (bounds->blocks.pairs[i].key != MT_NUMBER_MAP_NO_KEY)
            free((void *)(uintptr_t)bounds->blocks.pairs[i].value);
    for (int end = 0; end < ENDS; end++) {
        (void)mt_live_run_close(bounds->run[end], MT_RUN_DONE);
        if (bounds->device[end] != NULL)
            mt_device_close(bounds->device[end]);
    }
    mt_number_map_release(&bounds->blocks);
    free(bounds);
}

/* Takes a block of each allocator; none of no bytes. The allocators are large enough for any run. */
static struct twin take(struct mt_live_bounds *bounds, mt_stream stream, const uint64_t bytes[ENDS])
{
    const mt_label_id label = (mt_label_id)MT_CATEGORY_WORKSPACE << MT_LABEL_NUMBER_BITS | 1;
    struct twin twin = {0};
    for (int end = 0; end < ENDS; end++)
        if (bytes[end] > 0)
            (void)mt_alloc_take(mt_live_run_alloc(bounds->run[end]), bytes[end], stream, label, 0, &twin.blocks[end]);
    return twin;
}

static void give(struct mt_live_bounds *bounds, const struct twin *twin)
{
    for (int end = 0; end < ENDS; end++)
        mt_alloc_give(mt_live_run_alloc(bounds->run[end]), twin->blocks[end]);
}

void mt_live_bounds_take(struct mt_live_bounds *bounds, const struct mt_block *block,
                         const struct mt_estimate_range *range)
{
    const uint64_t requested = mt_block_requested_bytes(block);
    const uint64_t bytes[ENDS] = {requested, range != NULL ? range->low_bytes : requested,
                                  range != NULL ? range->high_bytes : requested};
    struct twin *twin = mt_host_alloc(sizeof *twin);
    *twin = take(bounds, mt_block_stream(block), bytes);
    mt_number_map_put(&bounds->blocks, mt_block_address(block), (uint64_t)(uintptr_t)twin);
}

void mt_live_bounds_give(struct mt_live_bounds *bounds, mt_addr address)
{
    uint64_t found;
    if (!mt_number_map_take(&bounds->blocks, address, &found))
        return;
    struct twin *twin = (struct twin *)(uintptr_t)found;
    give(bounds, twin);
    free(twin);
}

void mt_live_bounds_pass(struct mt_live_bounds *bounds, const struct mt_estimate_range *range)
{
    const struct twin twin = take(bounds, 0, (const uint64_t[ENDS]){0, range->low_bytes, range->high_bytes});
    give(bounds, &twin);
}

void mt_live_bounds_release_cached(struct mt_live_bounds *bounds)
{
    for (int end = 0; end < ENDS; end++)
        mt_alloc_release_cached(mt_live_run_alloc(bounds->run[end]));
}

static struct mt_alloc_stats stats_of(struct mt_alloc *alloc)
{
    struct mt_alloc_stats stats;
    mt_alloc_stats(alloc, &stats);
    return stats;
}

/* ---- the beginning ---- */

/* The pieces of an allocator's segments, in order. */
struct pieces {
    struct mt_alloc_piece *items;
    size_t count;
};

static void add_piece(void *context, const struct mt_alloc_piece *piece)
{
    struct pieces *pieces = context;
    *MT_HOST_ADD(pieces->items, pieces->count) = *piece;
}

/* Takes the pieces, and frees those that are free. */
static void take_pieces(struct mt_live_bounds *bounds, const struct pieces *pieces, const struct mt_number_map *blocks)
{
    struct twin *cached = mt_host_alloc((pieces->count + 1) * sizeof *cached);
    for (size_t i = 0; i < pieces->count; i++) {
        const struct mt_alloc_piece *piece = &pieces->items[i];
        uint64_t block;
        if (mt_number_map_get(blocks, piece->address, &block))
            mt_live_bounds_take(bounds, (const struct mt_block *)(uintptr_t)block, NULL);
        else
            cached[i] = take(bounds, piece->stream, (const uint64_t[ENDS]){piece->bytes, piece->bytes, piece->bytes});
    }
    for (size_t i = 0; i < pieces->count; i++)
        give(bounds, &cached[i]);
    free(cached);
}

static void begin(struct mt_live_bounds *bounds, struct mt_alloc *alloc, const struct mt_number_map *blocks)
{
    struct pieces pieces = {0};
    mt_alloc_visit(alloc, add_piece, &pieces);
    take_pieces(bounds, &pieces, blocks);
    free(pieces.items);
    for (int end = 0; end < ENDS; end++)
        mt_alloc_reset_peaks(mt_live_run_alloc(bounds->run[end]));
    const struct mt_alloc_stats stats = stats_of(alloc);
    bounds->before = (struct peaks){stats.all.peak_allocated_bytes, stats.peak_reserved_bytes};
}

mt_status mt_live_bounds_create(struct mt_alloc *alloc, const struct mt_alloc_settings *settings,
                                const struct mt_number_map *blocks, struct mt_live_bounds **out)
{
    struct mt_live_bounds *bounds = mt_host_alloc(sizeof *bounds);
    mt_status status = MT_OK;
    mt_number_map_create(&bounds->blocks);
    for (int end = 0; end < ENDS; end++)
        MT_THEN(status, open_one(bounds, settings, end));
    if (status == MT_OK)
        begin(bounds, alloc, blocks);
    else {
        mt_live_bounds_destroy(bounds);
        bounds = NULL;
    }
    *out = bounds;
    return status;
}

/* ---- the end ---- */

/* Returns the peaks of the run with the estimates of an end. */
static struct peaks peaks_of(const struct mt_live_bounds *bounds, int end)
{
    const struct mt_alloc_stats stats = stats_of(mt_live_run_alloc(bounds->run[end]));
    return (struct peaks){mt_larger(bounds->before.live, stats.all.peak_allocated_bytes),
                          mt_larger(bounds->before.reserved, stats.peak_reserved_bytes)};
}

static uint64_t difference(uint64_t larger, uint64_t smaller)
{
    return larger > smaller ? larger - smaller : 0;
}

struct mt_peak_bounds mt_live_bounds_find(const struct mt_live_bounds *bounds)
{
    const struct peaks counted = peaks_of(bounds, AS_COUNTED), low = peaks_of(bounds, LOW),
                       high = peaks_of(bounds, HIGH);
    return (struct mt_peak_bounds){.live_less = difference(counted.live, low.live),
                                   .live_more = difference(high.live, counted.live),
                                   .reserved_less = difference(counted.reserved, low.reserved),
                                   .reserved_more = difference(high.reserved, counted.reserved)};
}
