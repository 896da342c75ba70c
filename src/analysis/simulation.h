/* What a run would need, without a trace and without a card: the way to the answers of `fit` and `oom`. */
#ifndef MT_ANALYSIS_SIMULATION_H
#define MT_ANALYSIS_SIMULATION_H

#include "alloc/plan.h"
#include "analysis/session.h"

struct mt_simulation {
    uint64_t peak_requested_bytes, peak_allocated_bytes, peak_reserved_bytes;
    uint64_t capacity_bytes;
    bool fits; /* false: it ended out of memory, and the peaks are those until then */
};

/* Runs the plan on its device, which must be a simulated one ("sim", "sim:rtx4090", "sim:24GiB"; others are MT_USAGE),
 * for all its steps, but MT_SIMULATED_STEPS at most: by then peaks repeat, but for a percent of reserved bytes that some
 * runs gain as free blocks scatter. Nothing is traced or printed, and no file of tokens is read. */
enum { MT_SIMULATED_STEPS = 12 };
mt_status mt_simulate(const struct mt_run_plan *plan, struct mt_simulation *out);

/* A run that is simulated several times, on devices that differ: its blocks' places, where it follows a plan, are found
 * once for all of them, since that takes longer than a simulation.
 * Invariant: placement is NULL exactly if plan.follows_plan is false; steps that do not repeat can't be planned. */
struct mt_placed_run {
    struct mt_run_plan plan; /* its device may be changed, nothing else */
    struct mt_plan *placement;
};

/* Borrows the plan's texts. */
struct mt_placed_run mt_placed_run_create(const struct mt_run_plan *plan);
void mt_placed_run_release(struct mt_placed_run *run);

/* As mt_simulate does. */
mt_status mt_simulate_placed(const struct mt_placed_run *run, const char *device, struct mt_simulation *out);

/* Opens a device by a spelling of device.h, which must be a simulated one, otherwise MT_USAGE. */
mt_status mt_simulated_device_open(const char *spelling, struct mt_device **out);

#endif
