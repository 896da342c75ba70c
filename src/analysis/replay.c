/* The replay walks the moves of lifetimes. Its device is a simulated one, so that an allocation costs nothing but the
 * policy's own work; its sink forgets what it is told. */
#include "analysis/replay.h"

#include "analysis/moves.h"
#include "base/interner.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

mt_category mt_category_of_label(const struct mt_label_row *label)
{
    for (mt_category category = 0; category < MT_CATEGORY_COUNT; category++)
        if (strcmp(label->category, mt_category_name(category)) == 0)
            return category;
    return MT_CATEGORY_WORKSPACE;
}

struct mt_lifetime *mt_lifetimes_of_blocks(const struct mt_block_row *blocks, size_t count,
                                           const struct mt_label_row *labels, size_t label_count)
{
    mt_category *categories = mt_host_alloc((label_count + 1) * sizeof *categories);
    for (size_t i = 0; i < label_count; i++)
        categories[i] = mt_category_of_label(&labels[i]);
    struct mt_lifetime *lifetimes = mt_host_resize(NULL, count > 0 ? count : 1, sizeof *lifetimes);
    for (size_t i = 0; i < count; i++) {
        const struct mt_block_row *block = &blocks[i];
        lifetimes[i] = (struct mt_lifetime){
            .requested_bytes = block->requested_bytes,
            .begin = mt_position_at(block->alloc_event),
            .end = block->free_event != 0 ? mt_position_at(block->free_event) : MT_POSITION_NEVER,
            .label = block->label,
            .category = categories[block->label],
            .stream = block->stream,
        };
    }
    free(categories);
    return lifetimes;
}

/* An allocator with nothing behind it. */
struct stage {
    struct mt_device *device;
    struct mt_interner *interner;
    struct mt_alloc *alloc;
    struct mt_block **blocks; /* by lifetime; NULL while it is not there */
};

static mt_status stage_open(struct stage *stage, size_t count, const struct mt_alloc_settings *settings,
                            uint64_t capacity_bytes)
{
    *stage = (struct stage){0};
    mt_status status = mt_device_open_simulated(capacity_bytes, &stage->device);
    if (status != MT_OK)
        return status;
    stage->interner = mt_interner_create();
    stage->blocks = mt_host_alloc((count > 0 ? count : 1) * sizeof(struct mt_block *));
    struct mt_sink sink = mt_sink_discarding(stage->interner);
    return mt_alloc_create(stage->device, &sink, settings, &stage->alloc);
}

static void stage_close(struct stage *stage)
{
    mt_alloc_destroy(stage->alloc);
    mt_interner_destroy(stage->interner);
    free(stage->blocks);
    if (stage->device != NULL)
        mt_device_close(stage->device);
}

/* Of a label a policy sees no more than the category. */
static mt_label_id label_of(const struct mt_lifetime *lifetime)
{
    return (mt_label_id)lifetime->category << MT_LABEL_NUMBER_BITS | 1;
}

/* MT_OUT_OF_MEMORY if the lifetime can't be had. Lifetimes of no bytes, which imported traces have, take no block. */
static mt_status play(struct stage *stage, const struct mt_lifetime *lifetime, const struct mt_move *move)
{
    struct mt_block **block = &stage->blocks[move->index];
    if (!mt_move_is_begin(move)) {
        mt_alloc_give(stage->alloc, *block);
        return MT_OK;
    }
    if (lifetime->requested_bytes == 0)
        return MT_OK;
    return mt_alloc_take(stage->alloc, lifetime->requested_bytes, lifetime->stream, label_of(lifetime), 0, block);
}

/* Blocks come back long after they went out, when nothing of them is at hand any more: so ask for them early. */
enum { MOVES_AHEAD = 16 };

static void look_ahead(const struct stage *stage, const struct mt_moves *moves, size_t at)
{
    if (at + 2 * MOVES_AHEAD < moves->count)
        __builtin_prefetch(&stage->blocks[moves->items[at + 2 * MOVES_AHEAD].index]);
    if (at + MOVES_AHEAD < moves->count)
        __builtin_prefetch(stage->blocks[moves->items[at + MOVES_AHEAD].index]);
}

/* Sets whether all fits, and otherwise what was not met. */
static mt_status play_all(struct stage *stage, const struct mt_lifetime *lifetimes, size_t count,
                          struct mt_replay_result *out)
{
    struct mt_moves moves;
    mt_moves_create(lifetimes, count, &moves);
    mt_status status = MT_OK;
    for (size_t i = 0; i < moves.count && status == MT_OK; i++) {
        const struct mt_move *move = &moves.items[i];
        look_ahead(stage, &moves, i);
        status = play(stage, &lifetimes[move->index], move);
        if (status == MT_OUT_OF_MEMORY)
            out->unmet = move->index;
    }
    out->fits = status == MT_OK;
    mt_moves_release(&moves);
    return status == MT_OUT_OF_MEMORY ? MT_OK : status;
}

mt_status mt_replay_run(const struct mt_lifetime *lifetimes, size_t count, const struct mt_alloc_settings *settings,
                        uint64_t capacity_bytes, struct mt_replay_result *out)
{
    struct stage stage;
    *out = (struct mt_replay_result){0};
    mt_status status = stage_open(&stage, count, settings, capacity_bytes);
    if (status == MT_OK)
        status = play_all(&stage, lifetimes, count, out);
    if (status == MT_OK) {
        struct mt_alloc_stats stats;
        mt_alloc_stats(stage.alloc, &stats);
        out->requested_bytes = stats.all.peak_requested_bytes;
        out->allocated_bytes = stats.all.peak_allocated_bytes;
        out->reserved_bytes = stats.peak_reserved_bytes;
    }
    stage_close(&stage);
    return status;
}
