/* A replay of a run with another batch: blocks grow or shrink with the batch, each kind by its own factor.
 *
 *   two runs   a kind's bytes per step are linear in the batch: fixed + batch * slope, from both runs
 *   one run    assumed: inputs and blocks of forward and backward grow with the batch; all others stay
 *
 * A kind is a category, role and phase. Threads: any. An input is only read. */
#pragma once

#include "analysis/advise/advise.h"

/* The batch of a run whose batch is unknown: hundredths of it. */
enum { MT_BATCH_UNKNOWN = 100 };

/* A run and its batch, and how blocks of each label grow with it. Borrows the input; owns growths. */
struct mt_scaling {
    const struct mt_advice_input *input;
    int64_t batch;   /* MT_BATCH_UNKNOWN if the run's batch is unknown */
    double *growths; /* by label: relative growth of a block if the batch grows by 1 */
};

/* Computes the growths of a run with this batch, from another run with another batch. NULL: there is none, and the
 * assumption above is used. Release it. */
struct mt_scaling mt_scaling_create(const struct mt_advice_input *input, int64_t batch,
                                    const struct mt_advice_input *other, int64_t other_batch);
void mt_scaling_release(struct mt_scaling *scaling);

/* Replays the run as if it had this batch, with its own settings and capacity. */
mt_status mt_scaled_replay(const struct mt_scaling *scaling, int64_t batch, struct mt_replay_result *out);

/* Finds the largest batch that fits the capacity, by bisection; 0: none. The search stops at MT_MOST_BATCHES times the
 * run's batch. */
enum { MT_MOST_BATCHES = 4096 };
mt_status mt_scaled_find_largest(const struct mt_scaling *scaling, int64_t *out);
