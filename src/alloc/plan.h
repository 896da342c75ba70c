/* A plan: the place of each block of a run, found before the run starts.
 *
 *   requests of a simulated run ──mt_plan_make──▶ plan ──mt_alloc_follow──▶ one segment, each request at its place
 *
 * A policy that learns of a request when it is made leaves gaps that later requests do not fit. But training repeats its
 * steps, and the device `sim` gets the same requests as a card. So a run simulates its beginning on a device that is never
 * full, until two steps in a row make the same requests, and packs them offline (plan_pack.h); the result needs little more
 * than their peak. Of a model of 2.7B (batch 4, sequence 256, full step) the reserved bytes over the peak allocated are
 * 1.0000 to 1.0010 with a plan, 1.000 to 1.014 with `tight`, and 1.009 to 1.150 with `torch`. The simulation takes some
 * 20 ms and the packing 0.03 to 0.4 s.
 *
 * The allocator follows a plan in an arena, one segment of the plan's size (follow.h). A plan is a hint, never a promise: a
 * request that differs from the plan, or whose place is taken, is served by the policy as if there were no plan, and is
 * counted. At the next step the plan is followed from that step's first place again. Before a request is refused, the plan
 * is given up and the arena handed to the policy.
 *
 * A plan never changes once it is made, so any thread may use it. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One request, in the order in which they were made. */
struct mt_plan_request {
    uint64_t bytes; /* as requested, or as a policy rounds that up; not 0 */
    uint64_t freed; /* the number of requests before its block was given back; MT_PLAN_KEPT: it never was */
    int64_t step;   /* of the request; MT_NO_STEP: before the first */
};
#define MT_PLAN_KEPT UINT64_MAX

/* The stream of the planned requests. The policy serves those of other streams, and they do not count. */
enum { MT_PLAN_STREAM = 0 };

struct mt_plan;

/* Packs the requests of a run's beginning. Its last two steps must be whole and equal: all later ones repeat them. Blocks
 * are rounded up to MT_BLOCK_UNIT, and two blocks that are live at once never overlap, neither in these requests nor when
 * the step repeats for ever. A request gets no place if its block outlives the beginning of the block that takes its place
 * in the next step. Copies what it needs. Fails with MT_USAGE, and the first difference, if the last two steps differ, if
 * steps are not numbered one after the other, or if a size overflows; then *out is NULL. */
mt_status mt_plan_make(const struct mt_plan_request *requests, size_t count, struct mt_plan **out);
void mt_plan_destroy(struct mt_plan *plan);

/* Return the end of the highest place, and the most bytes that are live at once, which is the least that any plan takes. */
uint64_t mt_plan_bytes(const struct mt_plan *plan);
uint64_t mt_plan_peak_bytes(const struct mt_plan *plan);

/* Sets *out_offset to the place of request `number` of `step`. Both count from 0; MT_NO_STEP is the time before the first
 * step, and steps after the planned ones are as the last. False if the plan has no such request, or one of other bytes. */
bool mt_plan_place(const struct mt_plan *plan, int64_t step, uint64_t number, uint64_t bytes, uint64_t *out_offset);

struct mt_alloc;

/* Follows a plan from now on, in a segment of its own; STEP_BEGIN of mt_alloc_mark begins the next step. Borrows the plan
 * until the allocator is destroyed. Fails with MT_USAGE if a block was taken before, with MT_OUT_OF_MEMORY if the device has
 * no room for the segment, and with the device's status if that fails otherwise. Then the allocator goes on without it. */
mt_status mt_alloc_follow(struct mt_alloc *alloc, const struct mt_plan *plan);
