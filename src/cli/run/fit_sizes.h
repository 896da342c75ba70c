/* The simulations that a search for what fits is made of, and the search for the largest batch or sequence: a bound by
 * what is asked for at once, then a size that fits below it, then whatever fits above that. */
#ifndef MT_CLI_FIT_SIZES_H
#define MT_CLI_FIT_SIZES_H

#include "cli/run/fit_search.h"

/* More memory than any run asks for: a capacity that is no limit. */
#define MT_FIT_UNLIMITED_BYTES ((uint64_t)1 << 60)

/* Simulates the run on a device with so many bytes. */
mt_status mt_fit_simulate_with(const struct mt_placed_run *run, uint64_t capacity_bytes, struct mt_simulation *out);

/* Whether the plan fits its device. A configuration that can't be run does not. */
mt_status mt_fit_check(const struct mt_run_plan *plan, bool *out_fits);

/* The largest batch or sequence that fits the plan's device, which has capacity_bytes. The plan's own is where the search
 * begins. */
mt_status mt_fit_find_largest(const struct mt_run_plan *plan, mt_setting change, uint64_t capacity_bytes,
                              struct mt_fit_largest *out);

#endif
