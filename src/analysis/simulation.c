#include "analysis/simulation.h"

#include "analysis/placement.h"
#include "base/interner.h"

#include <string.h>

/* What a simulation has open. */
struct simulation {
    struct mt_device *device;
    struct mt_interner *interner;
    struct mt_sink sink;
    struct mt_alloc *alloc;
};

mt_status mt_simulated_device_open(const char *spelling, struct mt_device **out)
{
    if (strncmp(spelling, "sim", 3) != 0)
        return mt_fail(MT_USAGE,
                       "the device is %s: only a simulated device shows what a run would need, such as sim:rtx4090",
                       spelling);
    return mt_device_open(spelling, out);
}

/* What of the run matters for its memory. The tokens of a file do not, so it need not be there: the reference tokens take
 * blocks of the same size. */
static struct mt_training_config reduce(struct mt_training_config config)
{
    if (config.data == MT_DATA_FILE)
        config.data = MT_DATA_REFERENCE;
    if (config.warmup >= MT_SIMULATED_STEPS)
        config.warmup = MT_SIMULATED_STEPS - 1;
    if (config.steps > MT_SIMULATED_STEPS - config.warmup)
        config.steps = MT_SIMULATED_STEPS - config.warmup;
    return config;
}

static struct mt_simulation measure(const struct simulation *simulation, mt_status status)
{
    struct mt_alloc_stats stats;
    mt_alloc_stats(simulation->alloc, &stats);
    return (struct mt_simulation){.peak_requested_bytes = stats.all.peak_requested_bytes,
                                  .peak_allocated_bytes = stats.all.peak_allocated_bytes,
                                  .peak_reserved_bytes = stats.peak_reserved_bytes,
                                  .capacity_bytes = simulation->device->capacity_bytes,
                                  .fits = status == MT_OK};
}

struct mt_placed_run mt_placed_run_create(const struct mt_run_plan *plan)
{
    struct mt_placed_run run = {.plan = *plan};
    if (run.plan.follows_plan && mt_placement_find(plan, &run.placement) != MT_OK)
        run.plan.follows_plan = false; /* as a run goes on without */
    return run;
}

void mt_placed_run_release(struct mt_placed_run *run)
{
    mt_plan_destroy(run->placement);
    run->placement = NULL;
}

/* A plan that the device has no room for is not followed, and the run goes on. */
static mt_status train(const struct simulation *simulation, const struct mt_placed_run *run)
{
    const struct mt_training_config config = reduce(run->plan.config);
    if (run->placement != NULL)
        mt_alloc_follow(simulation->alloc, run->placement);
    return mt_training_run(simulation->device, simulation->alloc, &config, NULL);
}

mt_status mt_simulate_placed(const struct mt_placed_run *run, const char *device, struct mt_simulation *out)
{
    struct simulation simulation = {0};
    mt_status status = mt_simulated_device_open(device, &simulation.device);
    if (status != MT_OK)
        return status;
    simulation.interner = mt_interner_create();
    simulation.sink = mt_sink_discarding(simulation.interner);
    status = mt_alloc_create(simulation.device, &simulation.sink, &run->plan.alloc, &simulation.alloc);
    if (status == MT_OK) {
        status = train(&simulation, run);
        *out = measure(&simulation, status);
        mt_alloc_destroy(simulation.alloc);
    }
    mt_interner_destroy(simulation.interner);
    mt_device_close(simulation.device);
    return status == MT_OUT_OF_MEMORY ? MT_OK : status;
}

mt_status mt_simulate(const struct mt_run_plan *plan, struct mt_simulation *out)
{
    struct mt_placed_run run = mt_placed_run_create(plan);
    mt_status status = mt_simulate_placed(&run, plan->device, out);
    mt_placed_run_release(&run);
    return status;
}
