/* The internals of a plan, shared by plan.c, which makes it, and follow.c, which follows it. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* The place of a request; offset MT_PLAN_NOWHERE: left to the policy. */
struct mt_plan_place {
    uint64_t bytes; /* rounded up to MT_BLOCK_UNIT */
    uint64_t offset;
};
#define MT_PLAN_NOWHERE UINT64_MAX

/* Invariants: first[0] == 0, first ascends, first[part_count] == place_count; part 0 is the time before the first step,
 * part k + 1 is step k, and the last part is the repeated step; places end at or below `bytes`. */
struct mt_plan {
    struct mt_plan_place *places; /* in order of the requests */
    size_t place_count;
    size_t *first; /* part_count + 1 elements: the first place of each part */
    size_t part_count;
    uint64_t bytes, peak_bytes;
};

/* Returns the part for the requests of a step. */
static inline size_t mt_plan_part(const struct mt_plan *plan, int64_t step)
{
    uint64_t part = step < 0 ? 0 : (uint64_t)step + 1;
    assert(plan->part_count > 0);
    return part < plan->part_count ? (size_t)part : plan->part_count - 1;
}
