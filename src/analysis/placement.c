#include "analysis/placement.h"

#include "alloc/request_log.h"

/* The first step makes what stays, such as the optimizer's state; the next are equal, in some configurations from the third
 * on. */
enum { LEAST_STEPS = 3, MOST_STEPS = 4 };

/* More than any program asks for, and still far from where addresses end. */
static const uint64_t ENDLESS_BYTES = UINT64_C(1) << 50;

/* The same requests, whatever the tokens say. */
static struct mt_training_config shorten(struct mt_training_config config, int64_t steps)
{
    if (config.data == MT_DATA_FILE)
        config.data = MT_DATA_REFERENCE;
    config.warmup = 0;
    config.steps = steps;
    return config;
}

/* Trains for so many steps on a device where nothing is refused, and logs what is requested. */
static mt_status log_requests(const struct mt_run_plan *run, int64_t steps, struct mt_request_log *log)
{
    struct mt_device *device;
    mt_status status = mt_device_open_simulated(ENDLESS_BYTES, &device);
    if (status != MT_OK)
        return status;
    const struct mt_training_config config = shorten(run->config, steps);
    const struct mt_sink sink = mt_request_log_sink(log);
    struct mt_alloc *alloc;
    status = mt_alloc_create(device, &sink, &run->alloc, &alloc);
    if (status == MT_OK) {
        status = mt_training_run(device, alloc, &config, NULL);
        mt_alloc_destroy(alloc);
    }
    mt_device_close(device);
    return status;
}

/* A plan from the first `steps` steps. */
static mt_status plan_steps(const struct mt_run_plan *run, int64_t steps, struct mt_plan **out)
{
    struct mt_request_log *log = mt_request_log_create(&run->alloc);
    mt_status status = log_requests(run, steps, log);
    if (status == MT_OK) {
        size_t count;
        const struct mt_plan_request *requests = mt_request_log_requests(log, &count);
        status = mt_plan_make(requests, count, out);
    }
    mt_request_log_destroy(log);
    return status;
}

/* From as few steps as will do. */
mt_status mt_placement_find(const struct mt_run_plan *run, struct mt_plan **out)
{
    mt_status status = MT_USAGE;
    *out = NULL;
    for (int64_t steps = LEAST_STEPS; steps <= MOST_STEPS && status == MT_USAGE; steps++)
        status = plan_steps(run, steps, out);
    return status;
}

mt_status mt_placement_follow(const struct mt_run_plan *run, struct mt_alloc *alloc, struct mt_plan **out)
{
    *out = NULL;
    struct mt_plan *plan = NULL;
    mt_status status = mt_placement_find(run, &plan);
    if (status == MT_OK)
        status = mt_alloc_follow(alloc, plan);
    if (status == MT_OK)
        *out = plan;
    else
        mt_plan_destroy(plan);
    return status;
}
