/* A plan: where each block of a run will lie, worked out before it starts. Training repeats its steps, so the requests
 * of the first few tell all that follow; packed offline, they need little more than their peak.
 *
 *   requests of a simulated run ──mt_plan_make──▶ plan ──mt_alloc_follow──▶ one segment, each request at its place
 *
 * A plan is a hint and never a promise: a request that differs from what was planned, or whose place is taken, is
 * served by the policy as if there were no plan; at the next step the plan is taken up again.
 *
 * Threads: a plan is constant once made. */
#ifndef MT_ALLOC_PLAN_H
#define MT_ALLOC_PLAN_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request, in the order in which they were made. */
struct mt_plan_request {
    uint64_t bytes; /* as requested, or as a policy rounds that up; not 0 */
    uint64_t freed; /* how many requests had been made when its block came back; MT_PLAN_KEPT: it never did */
    int64_t step;   /* in which it was made; MT_NO_STEP: before the first */
};
#define MT_PLAN_KEPT UINT64_MAX

/* The stream whose requests are planned; those of others are served by the policy and do not count. */
enum { MT_PLAN_STREAM = 0 };

struct mt_plan;

/* Packs the requests of a run's beginning, of which the last two steps must be whole and equal: all later ones repeat
 * them. Blocks are rounded up to MT_BLOCK_UNIT, and two that are live at once never overlap, neither in what was told
 * nor when the step is repeated for ever. A request whose block outlives the one that takes its place in the next step
 * has no place. Copies what it needs. MT_USAGE, with the first difference, if the last two steps are not equal, if
 * steps are not numbered one after the other, or if a size overflows; then *out is NULL. */
mt_status mt_plan_make(const struct mt_plan_request *requests, size_t count, struct mt_plan **out);
void mt_plan_destroy(struct mt_plan *plan);

/* The bytes from the lowest place to the end of the highest; and the most that is live at once, which no plan can
 * beat. */
uint64_t mt_plan_bytes(const struct mt_plan *plan);
uint64_t mt_plan_peak_bytes(const struct mt_plan *plan);

/* Where request `number` of `step` lies (from 0; steps after the planned ones are as the last; MT_NO_STEP: before the
 * first); false if the plan has no such request, or one of other bytes. */
bool mt_plan_place(const struct mt_plan *plan, int64_t step, uint64_t number, uint64_t bytes, uint64_t *out_offset);

struct mt_alloc;

/* Follows a plan from now on, in a segment of its own; mt_alloc_mark's STEP_BEGIN tells which step it is. Borrows the
 * plan, until the allocator is destroyed. Before a request is refused for want of memory the plan is given up, and its
 * segment serves all. MT_USAGE if a block was taken already, MT_OUT_OF_MEMORY if the device has no room for it, and
 * what the device says if it fails otherwise: then the allocator goes on without. */
mt_status mt_alloc_follow(struct mt_alloc *alloc, const struct mt_plan *plan);

#endif
