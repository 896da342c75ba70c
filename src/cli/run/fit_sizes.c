#include "cli/run/fit_sizes.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

/* The count of sizes in a row that do not fit which ends the search for a larger one. */
enum { MT_FIT_SCANNED = 64 };

mt_status mt_fit_simulate_with(const struct mt_placed_run *run, uint64_t capacity_bytes, struct mt_simulation *out)
{
    char device[MT_BYTES_TEXT];
    snprintf(device, sizeof device, "sim:%" PRIu64, capacity_bytes);
    return mt_simulate_placed(run, device, out);
}

mt_status mt_fit_check(const struct mt_run_plan *plan, bool *out_fits)
{
    struct mt_simulation simulation;
    *out_fits = false;
    if (mt_training_config_check(&plan->config) != MT_OK)
        return MT_OK;
    mt_status status = mt_simulate(plan, &simulation);
    *out_fits = status == MT_OK && simulation.fits;
    return status;
}

/* A search for the largest size that passes a test. */
struct sizes {
    const struct mt_run_plan *plan;
    mt_setting size; /* the batch or the sequence */
    uint64_t capacity_bytes;
    mt_status (*test)(const struct sizes *sizes, const struct mt_run_plan *probe, bool *out);
};

static mt_status test_fit(const struct sizes *sizes, const struct mt_run_plan *probe, bool *out)
{
    (void)sizes;
    return mt_fit_check(probe, out);
}

/* True if the run asks for no more bytes at once than there are, since no allocator could do with less. Two steps are
 * enough to rule a size out. */
static mt_status test_bytes(const struct sizes *sizes, const struct mt_run_plan *probe, bool *out)
{
    struct mt_placed_run run = {.plan = *probe}; /* what is asked for is the same wherever it lies */
    struct mt_training_config *config = &run.plan.config;
    struct mt_simulation simulation;
    *out = false;
    if (mt_training_config_check(config) != MT_OK)
        return MT_OK;
    run.plan.follows_plan = false;
    if (config->warmup + config->steps > 2) {
        config->warmup = 0;
        config->steps = 2;
    }
    mt_status status = mt_fit_simulate_with(&run, MT_FIT_UNLIMITED_BYTES, &simulation);
    *out = status == MT_OK && simulation.fits && simulation.peak_requested_bytes <= sizes->capacity_bytes;
    return status;
}

static mt_status test_size(const struct sizes *sizes, int64_t size, bool *out)
{
    struct mt_run_plan probe = *sizes->plan;
    mt_setting_set_size(sizes->size, size, &probe);
    return sizes->test(sizes, &probe, out);
}

/* A size in [low, high) that passes the test, where one more does not; low passes, or is 0, and high does not. */
static mt_status bisect_sizes(const struct sizes *sizes, int64_t low, int64_t high, int64_t *out)
{
    mt_status status = MT_OK;
    while (status == MT_OK && high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        bool passes;
        status = test_size(sizes, middle, &passes);
        *(passes ? &low : &high) = middle;
    }
    *out = low;
    return status;
}

/* The most that could fit, whatever the allocator does; 0: none. It doubles until that is too much, which the range of a
 * configuration ends. */
static mt_status find_bound(struct sizes *sizes, int64_t *out)
{
    int64_t low = 0, high = mt_setting_size(sizes->size, sizes->plan);
    bool passes;
    sizes->test = test_bytes;
    mt_status status = test_size(sizes, high, &passes);
    while (status == MT_OK && passes) {
        low = high;
        high *= 2;
        status = test_size(sizes, high, &passes);
    }
    return status == MT_OK ? bisect_sizes(sizes, low, high, out) : status;
}

/* Goes on above a size that fits, or 0, one by one: others may fit that are larger. */
static mt_status scan_sizes(const struct sizes *sizes, int64_t bound, struct mt_fit_largest *out)
{
    mt_status status = MT_OK;
    while (status == MT_OK && out->tried_to < bound && out->tried_to - out->size < MT_FIT_SCANNED) {
        bool fits;
        status = test_size(sizes, out->tried_to + 1, &fits);
        out->tried_to++;
        if (fits)
            out->size = out->tried_to;
    }
    out->is_certain = out->tried_to >= bound;
    return status;
}

mt_status mt_fit_find_largest(const struct mt_run_plan *plan, mt_setting size, uint64_t capacity_bytes,
                              struct mt_fit_largest *out)
{
    struct sizes sizes = {plan, size, capacity_bytes, NULL};
    int64_t bound = 0;
    bool fits = false;
    *out = (struct mt_fit_largest){0};
    mt_status status = find_bound(&sizes, &bound);
    sizes.test = test_fit;
    if (status == MT_OK && bound > 0)
        status = test_size(&sizes, bound, &fits);
    if (status == MT_OK)
        status = fits || bound == 0 ? MT_OK : bisect_sizes(&sizes, 0, bound, &out->size);
    if (fits)
        out->size = bound;
    out->tried_to = out->size;
    return status == MT_OK ? scan_sizes(&sizes, bound, out) : status;
}
