/* Plans: from requests to lives, and from lives, packed, to places.
 *
 *   before   step 0   step 1   step 1 again, for ever         the axis of time, in requests
 *   ├────────┼────────┼────────┼────────┤
 *   ────────────────────────────────────▶   kept: a parameter, the optimizer's state
 *            ├──┤                           given back before the repeated step: one life
 *                       ├──┤     ├──┤       of the repeated step: the same again in the next, and in all that follow
 *                           ├─────┤   ├─    the same of a gradient, which lives into the next step
 *
 * The last step told is not packed: it only tells when the step before, which it equals, gave back what outlived it. */
#include "alloc/block.h"
#include "alloc/plan_pack.h"
#include "alloc/plan_parts.h"
#include "base/checked.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

/* The requests and where their steps begin.
 * Invariant: requests[repeated..last) are those of the step that repeats, requests[last..count) are as many. */
struct story {
    const struct mt_plan_request *requests;
    size_t count;
    size_t *first; /* of each part (struct mt_plan), and `count` after the last */
    size_t part_count;
    size_t repeated, last;
};

static mt_status check_request(const struct story *story, size_t i)
{
    const struct mt_plan_request *request = &story->requests[i];
    int64_t before = i > 0 ? request[-1].step : MT_NO_STEP;
    if (request->bytes == 0)
        return mt_fail(MT_USAGE, "request %zu is of 0 bytes", i);
    if (request->step < before || request->step > before + 1)
        return mt_fail(MT_USAGE, "request %zu is of step %" PRId64 ", the one before of step %" PRId64, i,
                       request->step, before);
    if (request->freed == MT_PLAN_KEPT || (request->freed > i && request->freed <= story->count))
        return MT_OK;
    return mt_fail(MT_USAGE, "request %zu came back when %" PRIu64 " of %zu had been made", i, request->freed,
                   story->count);
}

/* Finds where steps begin. */
static mt_status find_parts(struct story *story)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < story->count && status == MT_OK; i++) {
        status = check_request(story, i);
        while (status == MT_OK && (int64_t)story->part_count <= story->requests[i].step + 1)
            story->first[story->part_count++] = i;
    }
    story->first[story->part_count] = story->count;
    return status;
}

/* When a request of the step that begins at `begin` came back, counted from there; kept, if it outlived the step. */
static uint64_t freed_within(const struct story *story, size_t begin, size_t number)
{
    uint64_t freed = story->requests[begin + number].freed, length = story->last - story->repeated;
    if (freed == MT_PLAN_KEPT || freed >= begin + length)
        return MT_PLAN_KEPT;
    return freed - begin;
}

/* The last two steps must be equal, or nothing says that a step repeats. */
static mt_status check_repeats(const struct story *story)
{
    size_t length = story->last - story->repeated;
    int64_t step = story->requests[story->last].step;
    if (story->count - story->last != length)
        return mt_fail(MT_USAGE, "steps do not repeat: step %" PRId64 " makes %zu requests, step %" PRId64 " %zu",
                       step - 1, length, step, story->count - story->last);
    for (size_t i = 0; i < length; i++) {
        uint64_t a = story->requests[story->repeated + i].bytes, b = story->requests[story->last + i].bytes;
        if (a != b)
            return mt_fail(MT_USAGE,
                           "steps do not repeat: request %zu is of %" PRIu64 " bytes in step %" PRId64 ", of %" PRIu64
                           " in step %" PRId64,
                           i, a, step - 1, b, step);
        if (freed_within(story, story->repeated, i) != freed_within(story, story->last, i))
            return mt_fail(MT_USAGE,
                           "steps do not repeat: request %zu lives longer in one of steps %" PRId64 " and %" PRId64
                           " than in the other",
                           i, step - 1, step);
    }
    return MT_OK;
}

static mt_status read_story(struct story *story)
{
    mt_status status = find_parts(story);
    if (status != MT_OK)
        return status;
    if (story->part_count < 3)
        return mt_fail(MT_USAGE, "a plan needs two steps that are equal, there are %zu",
                       story->part_count > 0 ? story->part_count - 1 : 0);
    story->repeated = story->first[story->part_count - 2];
    story->last = story->first[story->part_count - 1];
    return check_repeats(story);
}

/* How a request is packed. */
enum group {
    KEPT,    /* lives for ever: at the bottom, one above the other */
    CORE,    /* lives in the step that repeats, which decides how many bytes the plan takes */
    REST,    /* was gone before it */
    NOWHERE, /* has no place that it could have in every step: it outlives its successor's beginning */
};

static enum group group_of(const struct story *story, size_t i)
{
    uint64_t freed = story->requests[i].freed;
    if (i < story->repeated)
        return freed == MT_PLAN_KEPT ? KEPT : freed > story->repeated ? CORE : REST;
    return freed != MT_PLAN_KEPT && freed - i <= story->last - story->repeated ? CORE : NOWHERE;
}

static uint32_t sooner(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

static struct mt_pack_block block_of(const struct story *story, size_t i, uint64_t bytes)
{
    uint64_t freed = story->requests[i].freed, length = story->last - story->repeated, end = story->last + length;
    struct mt_pack_block block = {.bytes = bytes, .lives[0] = {(uint32_t)i, sooner(freed, end)}};
    if (i >= story->repeated)
        block.lives[1] = (struct mt_pack_life){(uint32_t)(i + length), sooner(freed + length, end)};
    return block;
}

/* Blocks to pack, and which request each is for. */
struct packing {
    struct mt_pack_block *blocks;
    size_t *requests;
    size_t count;
};

/* Adds those of a group; returns how many. */
static size_t add_group(struct packing *packing, const struct mt_plan *plan, const struct story *story,
                        enum group group)
{
    size_t before = packing->count;
    for (size_t i = 0; i < plan->place_count; i++) {
        if (group_of(story, i) != group)
            continue;
        packing->blocks[packing->count] = block_of(story, i, plan->places[i].bytes);
        packing->requests[packing->count++] = i;
    }
    return packing->count - before;
}

/* Puts the first `count` blocks one above the other; returns their bytes. */
static uint64_t stack(struct mt_pack_block *blocks, size_t count)
{
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        blocks[i].offset = end;
        end += blocks[i].bytes;
    }
    return end;
}

static void pack(struct mt_plan *plan, const struct story *story)
{
    struct packing packing = {.blocks = mt_host_alloc(plan->place_count * sizeof *packing.blocks),
                              .requests = mt_host_alloc(plan->place_count * sizeof *packing.requests)};
    size_t kept = add_group(&packing, plan, story, KEPT), core = add_group(&packing, plan, story, CORE);
    add_group(&packing, plan, story, REST);
    uint64_t kept_bytes = stack(packing.blocks, kept);
    plan->peak_bytes = mt_pack_peak(packing.blocks, packing.count);
    mt_pack(&packing.blocks[kept], core,
            mt_whole_pages(plan->peak_bytes) - kept_bytes); /* less than a page is no gain */
    for (size_t i = kept; i < kept + core; i++)
        packing.blocks[i].offset += kept_bytes;
    plan->bytes = mt_pack_around(packing.blocks, kept + core, packing.count);
    for (size_t i = 0; i < packing.count; i++)
        plan->places[packing.requests[i]].offset = packing.blocks[i].offset;
    free(packing.blocks);
    free(packing.requests);
}

/* Sizes, of which the sum must fit, and so must the number of moments. */
static mt_status size_places(struct mt_plan *plan, const struct story *story)
{
    uint64_t sum = MT_SEGMENT_UNIT;
    bool fits = story->count < UINT32_MAX / 2;
    for (size_t i = 0; i < plan->place_count && fits; i++) {
        plan->places[i].offset = MT_PLAN_NOWHERE;
        fits = mt_checked_round_up(story->requests[i].bytes, MT_BLOCK_UNIT, &plan->places[i].bytes) &&
               mt_checked_add(sum, plan->places[i].bytes, &sum);
    }
    return fits ? MT_OK
                : mt_fail(MT_USAGE, "%zu requests are more, or of more bytes, than can be planned", story->count);
}

mt_status mt_plan_make(const struct mt_plan_request *requests, size_t count, struct mt_plan **out)
{
    *out = NULL;
    struct story story = {.requests = requests, .count = count};
    story.first = mt_host_alloc((count + 2) * sizeof *story.first);
    mt_status status = read_story(&story);
    struct mt_plan *plan = mt_host_alloc(sizeof *plan);
    plan->first = story.first; /* of one part less: the last is as the one before it */
    if (status == MT_OK) {
        plan->part_count = story.part_count - 1;
        plan->place_count = story.last;
        plan->places = mt_host_alloc(plan->place_count * sizeof *plan->places);
        status = size_places(plan, &story);
    }
    if (status == MT_OK) {
        pack(plan, &story);
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
    *out_offset = place->offset;
    return true;
}
