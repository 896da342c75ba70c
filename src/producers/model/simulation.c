#include "producers/model/simulation.h"

#include "alloc/request_log.h"
#include "producers/model/training.h"
#include "run/live_run.h"

#include <assert.h>

mt_status mt_simulated_card_find(const char *spelling, struct mt_card *out)
{
    if (!mt_device_is_simulated(spelling))
        return mt_fail(MT_USAGE, "the device is %s: this needs a simulated device, such as sim:rtx4090", spelling);
    return mt_device_find_card(spelling, out);
}

mt_status mt_planned_card_find(const struct mt_run_plan *plan, struct mt_card *out)
{
    if (plan->card == NULL)
        return mt_simulated_card_find(plan->device, out);
    *out = *plan->card;
    return MT_OK;
}

/* Returns the configuration with these steps. A file of tokens does not affect memory and need not exist: the
 * reference tokens have blocks of the same size. */
static struct mt_training_config limit_steps(struct mt_training_config config, int64_t warmup, int64_t steps)
{
    assert(warmup >= 0 && steps >= 1);
    if (config.data == MT_DATA_FILE)
        config.data = MT_DATA_REFERENCE;
    config.warmup = warmup;
    config.steps = steps;
    return config;
}

/* Returns the configuration with MT_SIMULATED_STEPS at most. */
static struct mt_training_config reduce(const struct mt_training_config *config)
{
    int64_t warmup = config->warmup < MT_SIMULATED_STEPS ? config->warmup : MT_SIMULATED_STEPS - 1;
    int64_t most = MT_SIMULATED_STEPS - warmup;
    return limit_steps(*config, warmup, config->steps < most ? config->steps : most);
}

/* The first step allocates permanent memory, such as the optimizer's state. The next are equal, in some configurations
 * from the third on. */
enum { LEAST_STEPS = 3, MOST_STEPS = 4 };

/* More than any program requests, and still far below the largest address. */
static const uint64_t ENDLESS_BYTES = UINT64_C(1) << 50;

/* Trains for `steps` steps on a card that refuses nothing, and logs the requests. */
static mt_status log_requests(const struct mt_run_plan *run, const struct mt_card *card, int64_t steps,
                              struct mt_request_log *log)
{
    struct mt_device *device;
    MT_TRY(mt_device_open_simulated(card, ENDLESS_BYTES, &device));
    const struct mt_training_config config = limit_steps(run->config, 0, steps);
    const struct mt_sink sink = mt_request_log_sink(log);
    struct mt_alloc *alloc;
    mt_status status = mt_alloc_create(device, &sink, &run->alloc, &alloc);
    if (status == MT_OK) {
        status = mt_training_run(device, alloc, &config, NULL);
        mt_alloc_destroy(alloc);
    }
    mt_device_close(device);
    return status;
}

/* Makes a plan of the first `steps` steps. */
static mt_status plan_steps(const struct mt_run_plan *run, const struct mt_card *card, int64_t steps,
                            struct mt_plan **out)
{
    struct mt_request_log *log = mt_request_log_create(&run->alloc);
    mt_status status = log_requests(run, card, steps, log);
    if (status == MT_OK) {
        size_t count;
        const struct mt_plan_request *requests = mt_request_log_requests(log, &count);
        status = mt_plan_make(requests, count, out);
    }
    mt_request_log_destroy(log);
    return status;
}

/* Computes a place for each block of the run: simulates its first steps on a card that is never full, until two in a
 * row make the same requests, and packs those. Fails with MT_USAGE, and sets *out to NULL, if the steps do not
 * repeat. */
static mt_status find_placement(const struct mt_run_plan *run, const struct mt_card *card, struct mt_plan **out)
{
    mt_status status = MT_USAGE;
    *out = NULL;
    for (int64_t steps = LEAST_STEPS; steps <= MOST_STEPS && status == MT_USAGE; steps++)
        status = plan_steps(run, card, steps, out);
    return status;
}

mt_status mt_placement_follow(const struct mt_run_plan *run, const struct mt_card *card, struct mt_alloc *alloc,
                              struct mt_plan **out)
{
    *out = NULL;
    struct mt_plan *plan = NULL;
    mt_status status = find_placement(run, card, &plan);
    MT_THEN(status, mt_alloc_follow(alloc, plan));
    if (status == MT_OK)
        *out = plan;
    else
        mt_plan_destroy(plan);
    return status;
}

static struct mt_simulation measure(const struct mt_live_run *run, mt_status status)
{
    struct mt_alloc_stats stats;
    const uint64_t capacity_bytes = mt_live_run_device(run)->capacity_bytes;
    mt_alloc_stats(mt_live_run_alloc(run), &stats);
    assert(stats.peak_reserved_bytes <= capacity_bytes);
    return (struct mt_simulation){.peak_requested_bytes = stats.all.peak_requested_bytes,
                                  .peak_allocated_bytes = stats.all.peak_allocated_bytes,
                                  .peak_reserved_bytes = stats.peak_reserved_bytes,
                                  .capacity_bytes = capacity_bytes,
                                  .fits = status == MT_OK};
}

mt_status mt_placed_run_create(const struct mt_run_plan *plan, struct mt_placed_run *out)
{
    *out = (struct mt_placed_run){.plan = *plan};
    MT_TRY(mt_planned_card_find(plan, &out->card));
    if (out->plan.follows_plan && find_placement(plan, &out->card, &out->placement) != MT_OK)
        out->plan.follows_plan = false; /* a run continues without it */
    return MT_OK;
}

void mt_placed_run_release(struct mt_placed_run *run)
{
    mt_plan_destroy(run->placement);
    run->placement = NULL;
}

/* If the device has no room for a plan, the run continues without it. */
static mt_status train(const struct mt_live_run *live, const struct mt_placed_run *run)
{
    const struct mt_training_config config = reduce(&run->plan.config);
    if (run->placement != NULL)
        mt_alloc_follow(mt_live_run_alloc(live), run->placement);
    return mt_training_run(mt_live_run_device(live), mt_live_run_alloc(live), &config, NULL);
}

mt_status mt_simulate_placed(const struct mt_placed_run *run, uint64_t capacity_bytes, struct mt_simulation *out)
{
    assert(run->placement == NULL || run->plan.follows_plan);
    struct mt_live_settings untraced = {.alloc = &run->plan.alloc};
    struct mt_live_run *live;
    MT_TRY(mt_device_open_simulated(&run->card, capacity_bytes, &untraced.device));
    mt_status status = mt_live_run_open(&untraced, &live);
    if (status == MT_OK) {
        status = train(live, run);
        *out = measure(live, status);
        (void)mt_live_run_close(live, MT_RUN_DONE);
    }
    mt_device_close(untraced.device);
    return status == MT_OUT_OF_MEMORY ? MT_OK : status;
}

mt_status mt_simulate(const struct mt_run_plan *plan, struct mt_simulation *out)
{
    struct mt_placed_run run;
    MT_TRY(mt_placed_run_create(plan, &run));
    mt_status status = mt_simulate_placed(&run, mt_card_usable_bytes(&run.card), out);
    mt_placed_run_release(&run);
    return status;
}
