/* A run with another batch, by replay: blocks grow or shrink with the batch, each kind by its own share.
 *
 *   two runs   bytes that a kind takes in a step are linear in the batch: fixed + batch * slope, by both runs
 *   one run    assumed: what forward and backward take, and inputs, grow with the batch; all else stays
 *
 * A kind is a category, role and phase. Threads: any. An input is only read. */
#pragma once

#include "analysis/advise/advise.h"

/* A batch in the unit of a run whose batch is not known: hundredths of it. */
enum { MT_BATCH_UNKNOWN = 100 };

/* A run and its batch, and how blocks of each label grow with it. Borrows the input; owns growths. */
struct mt_scaling {
    const struct mt_advice_input *input;
    int64_t batch;   /* MT_BATCH_UNKNOWN: of a run whose batch is not known */
    double *growths; /* by label: the part of a block's size that one more in the batch adds */
};

/* Makes the growths of a run of that batch, by another run of another batch; NULL: there is none, so the assumption holds.
 * Release it. */
struct mt_scaling mt_scaling_create(const struct mt_advice_input *input, int64_t batch,
                                    const struct mt_advice_input *other, int64_t other_batch);
void mt_scaling_release(struct mt_scaling *scaling);

/* Replays the run as if it had that batch, with its own settings and capacity. */
mt_status mt_scaled_replay(const struct mt_scaling *scaling, int64_t batch, struct mt_replay_result *out);

/* Finds the largest batch that fits the capacity, by bisection; 0: none does. Above MT_MOST_BATCHES times the run's it does
 * not look. */
enum { MT_MOST_BATCHES = 4096 };
mt_status mt_scaled_find_largest(const struct mt_scaling *scaling, int64_t *out);
