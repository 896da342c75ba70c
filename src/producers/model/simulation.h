/* Simulations of a run, without a trace and without a card: its peaks on a device of any size, and the places of its
 * blocks if it follows a plan. */
#pragma once

#include "alloc/plan.h"
#include "producers/model/settings.h"

struct mt_simulation {
    uint64_t peak_requested_bytes, peak_allocated_bytes, peak_reserved_bytes;
    uint64_t capacity_bytes;
    bool fits; /* false: it ended out of memory; the peaks are those before */
};

/* Runs the plan on its device, a simulated one ("sim", "sim:rtx4090", "sim:24GiB"), for all its steps, but at most
 * MT_SIMULATED_STEPS: by then peaks repeat, except for a percent of reserved bytes that some runs gain through
 * fragmentation. Nothing is traced or printed, and no file of tokens is read. Fails with MT_USAGE for another
 * device. */
enum { MT_SIMULATED_STEPS = 12 };
mt_status mt_simulate(const struct mt_run_plan *plan, struct mt_simulation *out);

/* A run that is simulated several times, on one card with more or less memory. The places of its blocks are computed
 * once for all simulations, since that takes longer than a simulation. Invariant: placement is NULL if
 * plan.follows_plan is false; steps that do not repeat can't be planned. */
struct mt_placed_run {
    struct mt_run_plan plan;
    struct mt_card card; /* of the plan's device */
    struct mt_plan *placement;
};

/* Borrows the plan's texts. Fails as mt_planned_card_find does. */
mt_status mt_placed_run_create(const struct mt_run_plan *plan, struct mt_placed_run *out);
void mt_placed_run_release(struct mt_placed_run *run);

/* Simulates like mt_simulate, with `capacity_bytes` of memory. */
mt_status mt_simulate_placed(const struct mt_placed_run *run, uint64_t capacity_bytes, struct mt_simulation *out);

/* Finds the card of a plan that is simulated. Fails as mt_simulated_card_find does. */
mt_status mt_planned_card_find(const struct mt_run_plan *plan, struct mt_card *out);

/* Finds the card of a simulated device, with the memory in its spelling. Fails with MT_USAGE for another
 * device. */
mt_status mt_simulated_card_find(const char *spelling, struct mt_card *out);

/* Computes a place for each block of the run on that card, and makes `alloc` follow the places. Nothing must have been
 * allocated from `alloc` yet. The run's first steps are simulated until two in a row make the same requests. Takes well
 * under a second for most runs, and about one for the largest. Fails with MT_USAGE if the steps do not repeat, and with
 * MT_OUT_OF_MEMORY if the device of `alloc` has no room. *out is NULL on failure, and the run may continue without it;
 * otherwise it outlives `alloc`, and the caller destroys it. */
mt_status mt_placement_follow(const struct mt_run_plan *run, const struct mt_card *card, struct mt_alloc *alloc,
                              struct mt_plan **out);
