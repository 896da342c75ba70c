/* Finds out if a program that is run dry fits a device, and which changes of it would make it fit. Each answer is a dry run
 * of the program with the changes made, which the caller supplies; nothing is estimated.
 *
 *   as it is, and each change alone ──▶ changes that the program has a place for ──▶ if none fits: the one that reserves least,
 *                                                                                     with others, as long as they lower it
 *
 * Threads: any. */
#pragma once

#include "analysis/replay.h"
#include "analysis/run_question.h"
#include "base/text.h"

/* Changes of a program of PyTorch, cheapest for who trains first. X(change, name, trial): `name` in requests and in JSON; a trial
 * is made ALWAYS, or where the program as it is HAS_PLACE for the change. */
#define MT_DRY_CHANGES(X)                                                                                              \
    X(ZERO_GRAD, "zero-grad", ALWAYS)                      /* gradients go before the next forward pass */             \
    X(NO_GRAD_EVALUATION, "no-grad-evaluation", HAS_PLACE) /* modules are evaluated without a graph */                 \
    X(EVAL_ACCUMULATION, "eval-accumulation", HAS_PLACE)   /* a trainer's outputs of evaluation go to the host */      \
    X(MAP_LOCATION, "map-location", HAS_PLACE)             /* checkpoints are loaded to the host */                    \
    X(BUCKET_VIEW, "bucket-view", HAS_PLACE)               /* gradients are views of DDP's buckets */                  \
    X(EXPANDABLE, "expandable-segments", ALWAYS)           /* the allocator's segments grow */                         \
    X(FUSED_OPTIMIZER, "fused-optimizer", ALWAYS)          /* one kernel updates all parameters */                     \
    X(LOOP_OPTIMIZER, "loop-optimizer", ALWAYS)            /* parameters are updated one by one */                     \
    X(FLASH, "flash", ALWAYS)                              /* attention by PyTorch's flash kernel */                   \
    X(SHARD_BLOCKS, "shard-blocks", HAS_PLACE)             /* FSDP gathers one block at a time */                      \
    X(LORA_DROPOUT, "lora-dropout", HAS_PLACE)             /* LoRA without dropout */                                  \
    X(AUTOCAST, "autocast", ALWAYS)                        /* forward under autocast to bf16 */                        \
    X(CHECKPOINT, "checkpoint", ALWAYS)                    /* repeated blocks are computed again in backward */        \
    X(BF16_WEIGHTS, "bf16-weights", ALWAYS)                /* parameters, gradients and states in bf16 */

#define X(name, ...) MT_DRY_##name,
typedef enum mt_dry_change { MT_DRY_CHANGES(X) MT_DRY_CHANGE_COUNT } mt_dry_change;
#undef X

const char *mt_dry_change_name(mt_dry_change change);

/* Some of the changes. */
struct mt_dry_changes {
    bool has[MT_DRY_CHANGE_COUNT];
};

/* Adds the names of all changes that need a place in the program, as a request to look for these places has them. */
void mt_dry_changes_add_places(struct mt_text *out);

/* Adds their names with commas between, as a request has them. */
void mt_dry_changes_add_names(const struct mt_dry_changes *changes, struct mt_text *out);

typedef enum mt_trial_outcome {
    MT_TRIAL_NOT_MADE, /* the trial was not necessary, or was not begun */
    MT_TRIAL_RAN,
    MT_TRIAL_REFUSED, /* a change does not apply */
    MT_TRIAL_FAILED,  /* the program failed by itself with it */
    MT_TRIAL_KILLED   /* a user or the kernel killed it, so nothing is known */
} mt_trial_outcome;

/* A dry run with changes. Invariant: peak is of a trial that ran. */
struct mt_dry_trial {
    struct mt_dry_changes changes;
    struct mt_dry_changes places; /* of the program as it is: the changes that it has a place for */
    mt_trial_outcome outcome;
    struct mt_replay_result peak; /* with more memory than it asks for; fits: on the device */
    int64_t rank;                 /* of many ranks, the one that needs most of its card; -1: it is no rank */
    int64_t sharers;              /* ranks that use that card, whose peaks are summed */
    struct mt_text words;         /* where the change was made, why not, or how the program failed; owned */
};

/* Makes trials, in any order: runs the program with trial->changes, and sets the rest. A program that fails is no failure. If the
 * program fails as it is, the other trials may be left as they are. */
typedef mt_status (*mt_dry_try)(void *context, struct mt_dry_trial *const *trials, size_t count);

/* All that is found.
 * Invariants: nothing is combined if the program fits as it is, or with a single change; each of combined[] has one change
 * more than the one before it, and reserves less. */
struct mt_dry_fit {
    struct mt_dry_trial plain;
    struct mt_dry_trial single[MT_DRY_CHANGE_COUNT];
    struct mt_dry_trial combined[MT_DRY_CHANGE_COUNT];
    size_t combined_count;
};

/* Finds the answer, with a trial for each change, and one for each that is added to others. Fails as a trial does, and with
 * MT_FAILED if a trial of several changes was killed. Release in any case. */
mt_status mt_dry_fit_find(mt_dry_try make, void *context, struct mt_dry_fit *out);
void mt_dry_fit_release(struct mt_dry_fit *fit);

/* Returns the first trial with changes that fits: of the cheapest change, or of several together; NULL if none does. */
const struct mt_dry_trial *mt_dry_fit_best(const struct mt_dry_fit *fit);

/* Reads the peaks of a run that was run dry with more memory than it asks for. out->fits: in capacity_bytes, by the peak of
 * what it reserves or, if that is more, by a replay that gives cached memory back. */
mt_status mt_dry_run_peak(const struct mt_question *run, uint64_t capacity_bytes, struct mt_replay_result *out);
