/* The simulations that a search for what fits is made of, and the search for the largest batch or sequence: a bound by
 * what is asked for at once, then a size that fits below it, then whatever fits above that. */
#ifndef MT_CLI_FIT_SIZES_H
#define MT_CLI_FIT_SIZES_H

#include "cli/run/simulation.h"

/* More memory than any run asks for: a capacity that is no limit. */
#define MT_FIT_UNLIMITED_BYTES ((uint64_t)1 << 60)

/* The largest batch or sequence that fits.
 * Invariants: size <= tried_to; no size above `size` up to tried_to fits. */
struct mt_fit_largest {
    int64_t size;     /* the largest that was seen to fit; 0: none */
    int64_t tried_to; /* every larger size up to here was simulated */
    bool is_certain;  /* and whatever is larger still asks for more bytes at once than there are */
};

/* Simulates the run on a device with so many bytes. */
mt_status mt_fit_simulate_with(const struct mt_placed_run *run, uint64_t capacity_bytes, struct mt_simulation *out);

/* Finds out if the plan fits its device. A configuration that can't be run does not. */
mt_status mt_fit_check(const struct mt_run_plan *plan, bool *out_fits);

/* Finds the largest batch or sequence, which `size` is, that fits the plan's device, which has capacity_bytes. The search
 * begins at the plan's own. */
mt_status mt_fit_find_largest(const struct mt_run_plan *plan, mt_setting size, uint64_t capacity_bytes,
                              struct mt_fit_largest *out);

#endif
