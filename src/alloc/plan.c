/* Makes plans: lifetimes of blocks from requests, and places from lifetimes, by packing them.
 *
 *   before   step 0   step 1   step 1 again, forever          time, in requests
 *   ├────────┼────────┼────────┼────────┤
 *   ────────────────────────────────────▶   kept forever: a parameter, optimizer state
 *            ├──┤                           freed before the repeated step: one lifetime
 *                       ├──┤     ├──┤       in the repeated step: the same in each later step
 *                           ├─────┤   ├─    of a gradient, which lives on into the next step; its successor there
 *                                           gets its place
 *
 * Kept blocks are at the bottom, one above the other. The blocks of the repeated step are packed above them. Blocks
 * that were freed before that step are placed last, between the others. The last step of the requests is not packed: it
 * is equal to the previous step, and shows when blocks that outlived that step were freed. */
#include "alloc/plan.h"

#include "alloc/block.h"
#include "alloc/plan_pack.h"
#include "alloc/plan_parts.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/order.h"

#include <inttypes.h>
#include <stdlib.h>

/* The requests, with the beginnings of their steps.
 * Invariant: requests[repeated..last) are the repeated step's; requests[last..count) are equally many. */
struct history {
    const struct mt_plan_request *requests;
    size_t count;
    size_t *first; /* of each part (struct mt_plan), followed by `count` */
    size_t part_count;
    size_t repeated, last;
};

static mt_status check_request(const struct history *history, size_t i)
{
    const struct mt_plan_request *request = &history->requests[i];
    int64_t before = i > 0 ? request[-1].step : MT_NO_STEP;
    if (request->bytes == 0)
        return mt_fail(MT_USAGE, "request %zu is of 0 bytes", i);
    if (request->step < before || request->step > before + 1)
        return mt_fail(MT_USAGE, "request %zu is of step %" PRId64 ", the one before of step %" PRId64, i,
                       request->step, before);
    if (request->freed == MT_PLAN_KEPT || (request->freed > i && request->freed <= history->count))
        return MT_OK;
    return mt_fail(MT_USAGE, "request %zu was freed after %" PRIu64 " of %zu requests", i, request->freed,
                   history->count);
}

/* Finds the beginnings of the steps. */
static mt_status find_parts(struct history *history)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < history->count && status == MT_OK; i++) {
        status = check_request(history, i);
        while (status == MT_OK && (int64_t)history->part_count <= history->requests[i].step + 1)
            history->first[history->part_count++] = i;
    }
    history->first[history->part_count] = history->count;
    return status;
}

/* Returns when a request of the step that begins at `begin` was freed, relative to that; MT_PLAN_KEPT if it outlived
 * the step. */
static uint64_t freed_within(const struct history *history, size_t begin, size_t number)
{
    uint64_t freed = history->requests[begin + number].freed, length = history->last - history->repeated;
    if (freed == MT_PLAN_KEPT || freed >= begin + length)
        return MT_PLAN_KEPT;
    return freed - begin;
}

/* Fails with MT_USAGE unless the last two steps are equal: then later ones are assumed equal, too. */
static mt_status check_repeats(const struct history *history)
{
    size_t length = history->last - history->repeated;
    int64_t step = history->requests[history->last].step;
    if (history->count - history->last != length)
        return mt_fail(MT_USAGE, "steps do not repeat: step %" PRId64 " makes %zu requests, step %" PRId64 " %zu",
                       step - 1, length, step, history->count - history->last);
    for (size_t i = 0; i < length; i++) {
        uint64_t a = history->requests[history->repeated + i].bytes, b = history->requests[history->last + i].bytes;
        if (a != b)
            return mt_fail(MT_USAGE,
                           "steps do not repeat: request %zu is of %" PRIu64 " bytes in step %" PRId64 ", of %" PRIu64
                           " in step %" PRId64,
                           i, a, step - 1, b, step);
        if (freed_within(history, history->repeated, i) != freed_within(history, history->last, i))
            return mt_fail(MT_USAGE,
                           "steps do not repeat: request %zu lives longer in one of steps %" PRId64 " and %" PRId64
                           " than in the other",
                           i, step - 1, step);
    }
    return MT_OK;
}

static mt_status read_history(struct history *history)
{
    MT_TRY(find_parts(history));
    if (history->part_count < 3)
        return mt_fail(MT_USAGE, "a plan needs two steps that are equal, there are %zu",
                       history->part_count > 0 ? history->part_count - 1 : 0);
    history->repeated = history->first[history->part_count - 2];
    history->last = history->first[history->part_count - 1];
    return check_repeats(history);
}

/* The groups of requests, by how they are packed. */
enum group {
    KEPT,    /* never freed: at the bottom, one above the other */
    CORE,    /* live in the repeated step, which determines the plan's size */
    REST,    /* freed before that step */
    NOWHERE, /* without a place: still live when its successor in the next step begins */
};

static enum group group_of(const struct history *history, size_t i)
{
    uint64_t freed = history->requests[i].freed;
    if (i < history->repeated)
        return freed == MT_PLAN_KEPT ? KEPT : freed > history->repeated ? CORE : REST;
    return freed != MT_PLAN_KEPT && freed - i <= history->last - history->repeated ? CORE : NOWHERE;
}

static struct mt_pack_block block_of(const struct history *history, size_t i, uint64_t bytes)
{
    uint64_t freed = history->requests[i].freed, length = history->last - history->repeated,
             end = history->last + length;
    struct mt_pack_block block = {.bytes = bytes, .lifetimes[0] = {(uint32_t)i, (uint32_t)mt_smaller(freed, end)}};
    if (i >= history->repeated)
        block.lifetimes[1] =
            (struct mt_pack_lifetime){(uint32_t)(i + length), (uint32_t)mt_smaller(freed + length, end)};
    return block;
}

/* Blocks to pack, and each block's request. */
struct packing {
    struct mt_pack_block *blocks;
    size_t *requests;
    size_t count;
};

/* Adds the requests of a group; returns their number. */
static size_t add_group(struct packing *packing, const struct mt_plan *plan, const struct history *history,
                        enum group group)
{
    size_t before = packing->count;
    for (size_t i = 0; i < plan->place_count; i++) {
        if (group_of(history, i) != group)
            continue;
        packing->blocks[packing->count] = block_of(history, i, plan->places[i].bytes);
        packing->requests[packing->count++] = i;
    }
    return packing->count - before;
}

/* Places the first `count` blocks one above the other; returns their total bytes. */
static uint64_t stack(struct mt_pack_block *blocks, size_t count)
{
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        blocks[i].offset = end;
        end += blocks[i].bytes;
    }
    return end;
}

static void pack(struct mt_plan *plan, const struct history *history)
{
    struct packing packing = {.blocks = mt_host_alloc(plan->place_count * sizeof *packing.blocks),
                              .requests = mt_host_alloc(plan->place_count * sizeof *packing.requests)};
    size_t kept = add_group(&packing, plan, history, KEPT), core = add_group(&packing, plan, history, CORE);
    add_group(&packing, plan, history, REST);
    uint64_t kept_bytes = stack(packing.blocks, kept);
    plan->peak_bytes = mt_pack_peak(packing.blocks, packing.count);
    mt_pack(&packing.blocks[kept], core,
            mt_whole_pages(plan->peak_bytes) - kept_bytes); /* saving less than a page is useless */
    for (size_t i = kept; i < kept + core; i++)
        packing.blocks[i].offset += kept_bytes;
    plan->bytes = mt_pack_around(packing.blocks, kept + core, packing.count);
    for (size_t i = 0; i < packing.count; i++)
        plan->places[packing.requests[i]].offset = packing.blocks[i].offset;
    assert(packing.count <= plan->place_count && plan->bytes >= plan->peak_bytes);
    free(packing.blocks);
    free(packing.requests);
}

/* Rounds up the sizes. Fails with MT_USAGE if their sum or the number of moments overflows. */
static mt_status size_places(struct mt_plan *plan, const struct history *history)
{
    uint64_t sum = MT_SEGMENT_UNIT;
    bool fits = history->count < UINT32_MAX / 2;
    for (size_t i = 0; i < plan->place_count && fits; i++) {
        plan->places[i].offset = MT_PLAN_NOWHERE;
        fits = mt_checked_round_up(history->requests[i].bytes, MT_BLOCK_UNIT, &plan->places[i].bytes) &&
               mt_checked_add(sum, plan->places[i].bytes, &sum);
    }
    return fits ? MT_OK
                : mt_fail(MT_USAGE, "%zu requests are more, or have more bytes, than can be planned", history->count);
}

mt_status mt_plan_make(const struct mt_plan_request *requests, size_t count, struct mt_plan **out)
{
    *out = NULL;
    struct history history = {.requests = requests, .count = count};
    history.first = mt_host_alloc((count + 2) * sizeof *history.first);
    mt_status status = read_history(&history);
    struct mt_plan *plan = mt_host_alloc(sizeof *plan);
    plan->first = history.first; /* without the last part, which is equal to the one before it */
    if (status == MT_OK) {
        plan->part_count = history.part_count - 1;
        plan->place_count = history.last;
        assert(plan->first[0] == 0 && plan->first[plan->part_count] == plan->place_count);
        plan->places = mt_host_alloc(plan->place_count * sizeof *plan->places);
        status = size_places(plan, &history);
    }
    if (status == MT_OK) {
        pack(plan, &history);
        *out = plan;
    } else {
        mt_plan_destroy(plan);
    }
    return status;
}

void mt_plan_destroy(struct mt_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->places);
    free(plan->first);
    free(plan);
}

uint64_t mt_plan_bytes(const struct mt_plan *plan)
{
    return plan->bytes;
}

uint64_t mt_plan_peak_bytes(const struct mt_plan *plan)
{
    return plan->peak_bytes;
}

bool mt_plan_place(const struct mt_plan *plan, int64_t step, uint64_t number, uint64_t bytes, uint64_t *out_offset)
{
    size_t part = mt_plan_part(plan, step);
    if (number >= plan->first[part + 1] - plan->first[part])
        return false;
    const struct mt_plan_place *place = &plan->places[plan->first[part] + number];
    uint64_t rounded;
    if (place->offset == MT_PLAN_NOWHERE || !mt_checked_round_up(bytes, MT_BLOCK_UNIT, &rounded) ||
        rounded != place->bytes)
        return false;
    assert(place->offset + place->bytes <= plan->bytes);
    *out_offset = place->offset;
    return true;
}
