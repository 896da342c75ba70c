/* Finds out whether an imported or recorded run fits a device. Such a run can't be repeated, so its blocks are replayed
 * there with the rules of PyTorch's or the run's own allocator: unchanged, with changes, and with a larger batch. */
#pragma once

#include "analysis/advise/program_changes.h"
#include "analysis/fit/fit_device.h"
#include "analysis/fit/scaled_run.h"
#include "analysis/run_question.h"

/* The question: a run on a device, and optionally another run, which shows how memory grows with the batch.
 * Invariant: with `other`, both batches are above 0 and differ. */
struct mt_replayed_question {
    const struct mt_question *run;
    const struct mt_question *other;       /* NULL: none */
    int64_t batch, other_batch;            /* 0: unknown */
    const struct mt_alloc_settings *alloc; /* for the answer; NULL: the run's own */
    uint64_t capacity_bytes;               /* of the device, available to a run */
};

/* The answer. Invariant: the batch is in hundredths of the run's if
 * `knows_batch` is false. Owns everything. Do not copy. */
struct mt_replayed_fit {
    struct mt_advice_material material, other;
    struct mt_replay_result had;         /* the run's own peaks; fits: it did not end out of memory */
    struct mt_program_changes unlimited; /* replayed without a limit; of each change, `fits` is for the device */
    bool fits;
    const char *smallest_card; /* that the unchanged run fits; NULL: none known */
    bool knows_batch, is_assumed;
    int64_t largest_batch;             /* 0: none fits */
    bool is_largest_of_all;            /* the search ended before it found a batch that does not fit */
    struct mt_replay_result checked;   /* with two runs: this run replayed with the other's batch */
    struct mt_replay_result other_had; /* and the actual peaks of the other run */
};

/* Finds the answer. Fails with MT_USAGE for a run with an unknown allocator. Release in any case. */
mt_status mt_replayed_fit_find(const struct mt_replayed_question *question, struct mt_replayed_fit *out);
void mt_replayed_fit_release(struct mt_replayed_fit *fit);

/* Replays a run and its changes without a limit, and on a device with so much memory. Sets items[i].replay.fits of *out
 * and, for the unchanged run, *out_fits to whether it fits that device. */
mt_status mt_replayed_changes_find(const struct mt_advice_input *run, uint64_t capacity_bytes,
                                   struct mt_program_changes *out, bool *out_fits);

/* Reads the actual peaks of a run. out->fits: it did not end out of memory. */
mt_status mt_run_own_peaks(const struct mt_question *question, struct mt_replay_result *out);

/* Returns the known card with the least memory that holds this peak and its own context; NULL if there is none. */
const char *mt_card_for_peak(uint64_t reserved_bytes);
