/* A plan: the place of each block of a run, computed before the run starts.
 *
 *   requests of a simulated run ──mt_plan_make──▶ plan ──mt_alloc_follow──▶ one segment, each request at its place
 *
 * A policy that sees a request only when it is made leaves gaps that do not fit later requests. But training repeats
 * its steps, and the device `sim` gets the same requests as a card. So the beginning of a run is simulated on a device
 * that is never full, until two consecutive steps make the same requests, which are then packed offline (plan_pack.h).
 * The result needs little more than their peak. For a model of 2.7B (batch 4, sequence 256, full step) the ratio of
 * reserved bytes to the allocated peak is 1.0000 to 1.0010 with a plan, 1.000 to 1.014 with `tight`, and 1.009 to 1.150
 * with `torch`. The simulation takes about 20 ms and the packing 0.03 to 0.4 s.
 *
 * The allocator follows a plan in an arena, one segment of the plan's size (follow.h). A plan is a hint: a request that
 * differs from the plan, or whose place is in use, is served by the policy as without a plan, and is counted. At the
 * next step, the plan is followed again from that step's first place. Before a request is refused, the plan is given up
 * and the arena is passed to the policy.
 *
 * A plan is constant, so any thread may use it. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request, in the order in which they were made. */
struct mt_plan_request {
    uint64_t bytes; /* as requested, or as rounded by a policy; not 0 */
    uint64_t freed; /* the number of requests before its block was freed; MT_PLAN_KEPT: never freed */
    int64_t step;   /* of the request; MT_NO_STEP: before the first step */
};
#define MT_PLAN_KEPT UINT64_MAX

/* The stream of the planned requests. The policy serves requests of other streams, which do not count. */
enum { MT_PLAN_STREAM = 0 };

struct mt_plan;

/* Packs the requests of a run's beginning. Its last two steps must be complete and equal: all later steps are assumed
 * to repeat them. Blocks are rounded up to MT_BLOCK_UNIT, and two blocks that are live at the same time never overlap,
 * neither in these requests nor when the step repeats forever. A request gets no place if its block is still live when
 * its successor in the next step begins. Copies what it needs. Fails with MT_USAGE, and the first difference, if the
 * last two steps differ, if steps are not numbered consecutively, or if a size overflows; then *out is NULL. */
mt_status mt_plan_make(const struct mt_plan_request *requests, size_t count, struct mt_plan **out);
void mt_plan_destroy(struct mt_plan *plan);

/* Return the end of the highest place, and the peak of live bytes, which is the minimum for any plan. */
uint64_t mt_plan_bytes(const struct mt_plan *plan);
uint64_t mt_plan_peak_bytes(const struct mt_plan *plan);

/* Sets *out_offset to the place of request `number` of `step`. Both count from 0; MT_NO_STEP is the time before the
 * first step, and steps after the planned ones are like the last. False if the plan has no such request, or one with
 * other bytes. */
bool mt_plan_place(const struct mt_plan *plan, int64_t step, uint64_t number, uint64_t bytes, uint64_t *out_offset);

struct mt_alloc;

/* Follows a plan from now on, in a separate segment; STEP_BEGIN of mt_alloc_mark begins the next step. Borrows the plan
 * until the allocator is destroyed. Fails with MT_USAGE if a block was allocated before, with MT_OUT_OF_MEMORY if the
 * device has no room for the segment, and with the device's status if it fails for another reason. Then the allocator
 * continues without the plan. */
mt_status mt_alloc_follow(struct mt_alloc *alloc, const struct mt_plan *plan);
