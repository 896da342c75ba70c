#include "alloc/follow.h"

#include "alloc/number_set.h"
#include "alloc/plan.h"
#include "alloc/plan_parts.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdlib.h>

/* A place, as the numbers of its borders. */
struct extent {
    uint32_t begin, end;
};

/* Borders are the offsets at which planned places begin or end, numbered in order. Only planned places are cut out of
 * the arena, so each of its blocks begins at a border; the block's `border` is its number.
 * Invariants: borders ascend from 0; `free_borders` are those where the arena's free blocks begin, and free_blocks[b]
 * is the block at border b; next <= end <= the plan's place_count. */
struct mt_follower {
    struct mt_policy_table policy;      /* a copy of base, with other functions for the arena's blocks */
    const struct mt_policy_table *base; /* the allocator's own policy, for requests that are not planned */
    const struct mt_plan *plan;
    struct mt_segment *arena; /* NULL: the plan was given up */
    uint64_t *borders;
    uint32_t border_count;
    struct extent *extents; /* by place of the plan */
    struct mt_number_set free_borders;
    struct mt_block **free_blocks;
    size_t next, end; /* the place of the next request, and the end of its part's places */
};

/* True if a block is in the arena. */
static bool is_in_arena(const struct mt_alloc *alloc, const struct mt_block *block)
{
    return block->segment == alloc->follower->arena;
}

static void insert(struct mt_alloc *alloc, struct mt_block *block)
{
    struct mt_follower *follower = alloc->follower;
    if (!is_in_arena(alloc, block)) {
        follower->base->insert(alloc, block);
        return;
    }
    assert(block->border < follower->border_count && follower->borders[block->border] == block->offset);
    assert(!mt_number_set_has(&follower->free_borders, (uint32_t)block->border));
    follower->free_blocks[block->border] = block;
    mt_number_set_insert(&follower->free_borders, (uint32_t)block->border);
}

static void take_out(struct mt_alloc *alloc, struct mt_block *block)
{
    struct mt_follower *follower = alloc->follower;
    if (!is_in_arena(alloc, block)) {
        follower->base->remove(alloc, block);
        return;
    }
    assert(mt_number_set_has(&follower->free_borders, (uint32_t)block->border));
    assert(follower->free_blocks[block->border] == block);
    mt_number_set_remove(&follower->free_borders, (uint32_t)block->border);
}

static struct mt_block *give(struct mt_alloc *alloc, struct mt_block *block)
{
    if (!is_in_arena(alloc, block))
        return alloc->follower->base->give(alloc, block);
    block = mt_block_merge(alloc, block, take_out);
    insert(alloc, block);
    return block;
}

static bool holds(const struct mt_alloc *alloc, const struct mt_block *block)
{
    const struct mt_follower *follower = alloc->follower;
    if (!is_in_arena(alloc, block))
        return follower->base->holds(alloc, block);
    return mt_number_set_has(&follower->free_borders, (uint32_t)block->border) &&
           follower->borders[block->border] == block->offset && follower->free_blocks[block->border] == block;
}

static uint64_t fingerprint(const struct mt_alloc *alloc)
{
    const struct mt_follower *follower = alloc->follower;
    return mt_splitmix64(follower->base->fingerprint(alloc) ^ (follower->arena != NULL ? follower->next : SIZE_MAX));
}

static mt_status check(const struct mt_alloc *alloc, uint64_t *out_blocks)
{
    const struct mt_follower *follower = alloc->follower;
    mt_status status = follower->base->check(alloc, out_blocks);
    uint32_t above = follower->border_count, border;
    while (status == MT_OK && above > 0 && mt_number_set_find_below(&follower->free_borders, above - 1, &border)) {
        if (!is_in_arena(alloc, follower->free_blocks[border]) || !follower->free_blocks[border]->is_free)
            return mt_fail(MT_FAILED, "the plan's arena has no free block at offset %" PRIu64,
                           follower->borders[border]);
        ++*out_blocks;
        above = border;
    }
    return status;
}

/* Collects both ends of every place and the arena's beginning, without duplicates, in order. */
static void find_borders(struct mt_follower *follower)
{
    const struct mt_plan *plan = follower->plan;
    uint64_t *borders = mt_host_alloc((2 * plan->place_count + 1) * sizeof *borders);
    size_t count = 1, kept = 0;
    for (size_t i = 0; i < plan->place_count; i++) {
        const struct mt_plan_place *place = &plan->places[i];
        if (place->offset == MT_PLAN_NOWHERE)
            continue;
        borders[count++] = place->offset;
        borders[count++] = place->offset + place->bytes;
    }
    qsort(borders, count, sizeof *borders, mt_compare_uint64);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || borders[i] != borders[kept - 1])
            borders[kept++] = borders[i];
    assert(borders[0] == 0 && kept <= count && kept <= UINT32_MAX);
    follower->borders = borders;
    follower->border_count = (uint32_t)kept;
}

static uint32_t border_at(const struct mt_follower *follower, uint64_t offset)
{
    const uint64_t *found =
        bsearch(&offset, follower->borders, follower->border_count, sizeof *follower->borders, mt_compare_uint64);
    assert(found != NULL);
    return (uint32_t)(found - follower->borders);
}

static void find_extents(struct mt_follower *follower)
{
    const struct mt_plan *plan = follower->plan;
    follower->extents = mt_host_alloc(plan->place_count * sizeof *follower->extents);
    for (size_t i = 0; i < plan->place_count; i++) {
        const struct mt_plan_place *place = &plan->places[i];
        if (place->offset != MT_PLAN_NOWHERE)
            follower->extents[i] =
                (struct extent){border_at(follower, place->offset), border_at(follower, place->offset + place->bytes)};
    }
}

static struct mt_follower *follower_create(const struct mt_plan *plan, const struct mt_policy_table *base)
{
    struct mt_follower *follower = mt_host_alloc(sizeof *follower);
    follower->plan = plan;
    follower->base = base;
    follower->policy = *base;
    follower->policy.give = give;
    follower->policy.insert = insert;
    follower->policy.remove = take_out;
    follower->policy.holds = holds;
    follower->policy.fingerprint = fingerprint;
    follower->policy.check = check;
    find_borders(follower);
    find_extents(follower);
    follower->free_borders = mt_number_set_create(follower->border_count);
    follower->free_blocks = mt_host_alloc(follower->border_count * sizeof(struct mt_block *));
    follower->end = plan->first[1];
    return follower;
}

void mt_follower_destroy(struct mt_follower *follower)
{
    if (follower == NULL)
        return;
    free(follower->borders);
    free(follower->extents);
    free(follower->free_blocks);
    mt_number_set_release(&follower->free_borders);
    free(follower);
}

/* Maps the arena and starts to follow the plan. */
static mt_status follow(struct mt_alloc *alloc, const struct mt_plan *plan)
{
    uint64_t bytes;
    assert(mt_biased_lock_is_held(&alloc->lock));
    if (alloc->stats.all.total_allocs > 0 || alloc->follower != NULL)
        return mt_fail(MT_USAGE, "a plan is followed from the first request on: %" PRIu64 " were made",
                       alloc->stats.all.total_allocs);
    if (!mt_checked_round_up(mt_plan_bytes(plan), MT_SEGMENT_UNIT, &bytes) || bytes == 0)
        return mt_fail(MT_USAGE, "the plan has no request in it");
    struct mt_block *block = mt_segment_map(alloc, MT_PLAN_STREAM, MT_POOL_LARGE, bytes);
    if (block == NULL)
        return mt_fail_context(alloc->failure, "the plan");
    alloc->follower = follower_create(plan, alloc->policy);
    alloc->follower->arena = block->segment;
    alloc->policy = &alloc->follower->policy;
    block->border = 0;
    insert(alloc, block);
    return MT_OK;
}

mt_status mt_alloc_follow(struct mt_alloc *alloc, const struct mt_plan *plan)
{
    mt_biased_lock_take(&alloc->lock);
    mt_status status = follow(alloc, plan);
    mt_biased_lock_give(&alloc->lock);
    return status;
}

void mt_follow_step(struct mt_alloc *alloc, uint64_t step)
{
    struct mt_follower *follower = alloc->follower;
    if (follower == NULL)
        return;
    size_t part = mt_plan_part(follower->plan, (int64_t)(step & INT64_MAX));
    follower->next = follower->plan->first[part];
    follower->end = follower->plan->first[part + 1];
    assert(follower->next <= follower->end && follower->end <= follower->plan->place_count);
}

/* Returns the arena's free block that covers a place; NULL if part of the place is out. */
static struct mt_block *find_free(const struct mt_follower *follower, const struct mt_plan_place *place,
                                  struct extent extent)
{
    uint32_t border;
    if (!mt_number_set_find_below(&follower->free_borders, extent.begin, &border))
        return NULL;
    struct mt_block *block = follower->free_blocks[border];
    assert(block->is_free && block->segment == follower->arena && block->border == border);
    return block->offset + block->bytes >= place->offset + place->bytes ? block : NULL;
}

/* Cuts a place out of the free block that covers it; the rest on either side remains free. */
static struct mt_block *carve(struct mt_alloc *alloc, struct mt_block *block, const struct mt_plan_place *place,
                              struct extent extent)
{
    if (block->offset < place->offset)
        block = mt_block_split(alloc, block, place->offset - block->offset);
    else
        mt_number_set_remove(&alloc->follower->free_borders, extent.begin);
    block->border = extent.begin;
    assert(block->offset == place->offset && block->bytes >= place->bytes);
    if (block->bytes > place->bytes) {
        struct mt_block *rest = mt_block_split(alloc, block, place->bytes);
        rest->border = extent.end;
        insert(alloc, rest);
    }
    return block;
}

/* Returns the block at the next request's place; NULL if the request differs from the plan, or its place is in use. */
static struct mt_block *take_next(struct mt_alloc *alloc, uint64_t bytes)
{
    struct mt_follower *follower = alloc->follower;
    if (follower->arena == NULL || follower->next == follower->end)
        return NULL;
    assert(follower->next < follower->end);
    size_t i = follower->next++;
    const struct mt_plan_place *place = &follower->plan->places[i];
    if (place->bytes != bytes || place->offset == MT_PLAN_NOWHERE)
        return NULL;
    struct mt_block *block = find_free(follower, place, follower->extents[i]);
    return block != NULL ? carve(alloc, block, place, follower->extents[i]) : NULL;
}

struct mt_block *mt_follow_take(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes)
{
    assert(alloc->follower != NULL);
    struct mt_block *block = stream == MT_PLAN_STREAM ? take_next(alloc, bytes) : NULL;
    if (block != NULL)
        alloc->stats.planned_requests++;
    else
        alloc->stats.unplanned_requests++;
    return block;
}

bool mt_follow_give_up(struct mt_alloc *alloc)
{
    struct mt_follower *follower = alloc->follower;
    if (follower == NULL || follower->arena == NULL)
        return false;
    struct mt_segment *arena = follower->arena;
    for (struct mt_block *block = arena->first; block != NULL; block = block->after)
        if (block->is_free)
            take_out(alloc, block);
    follower->arena = NULL;
    for (struct mt_block *block = arena->first; block != NULL; block = block->after)
        if (block->is_free)
            insert(alloc, block);
    return true;
}

void mt_follow_unmapped(struct mt_alloc *alloc, const struct mt_segment *segment)
{
    if (alloc->follower != NULL && alloc->follower->arena == segment)
        alloc->follower->arena = NULL;
}
