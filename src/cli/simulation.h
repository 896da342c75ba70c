/* What a run would need, without a trace and without a card: the way to the answers of `fit` and `oom`. */
#ifndef MT_CLI_SIMULATION_H
#define MT_CLI_SIMULATION_H

#include "run_session.h"

struct mt_simulation {
    uint64_t peak_requested_bytes, peak_allocated_bytes, peak_reserved_bytes;
    uint64_t capacity_bytes;
    bool fits; /* false: it ended out of memory, and the peaks are those until then */
};

/* Runs the plan on its device, which must be a simulated one ("sim", "sim:rtx4090", "sim:24GiB"), for as many steps as
 * peaks need to repeat, at most plan->config.steps. Nothing is traced or printed. */
mt_status mt_simulate(const struct mt_run_plan *plan, struct mt_simulation *out);

#endif
