/* Finds out whether a program fits a device in a dry run, and which changes make it fit. Each answer is a dry run of
 * the changed program, made by the caller; nothing is estimated.
 *
 *   unchanged, and each change alone ──▶ changes with a place in the program ──▶ if none fits: combinations
 *
 * Threads: any. */
#pragma once

#include "analysis/replay.h"
#include "analysis/run_question.h"
#include "base/text.h"

/* Changes of a PyTorch program, ordered by their cost for training, cheapest first. X(change, name, trial): `name` in
 * requests and in JSON. A change is tried ALWAYS, or if the unchanged program HAS_PLACE for it. */
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

/* Adds the names of all changes that need a place in the program, in the form of a request to search for these
 * places. */
void mt_dry_changes_add_places(struct mt_text *out);

/* Adds their names with commas between them, in the form of a request. */
void mt_dry_changes_add_names(const struct mt_dry_changes *changes, struct mt_text *out);

typedef enum mt_trial_outcome {
    MT_TRIAL_NOT_MADE, /* the trial was not necessary, or did not start */
    MT_TRIAL_RAN,
    MT_TRIAL_REFUSED, /* a change does not apply */
    MT_TRIAL_FAILED,  /* the program failed with it */
    MT_TRIAL_KILLED   /* a user or the kernel killed it, so its result is unknown */
} mt_trial_outcome;

/* A dry run with changes. Invariant: peak is set if the trial ran. */
struct mt_dry_trial {
    struct mt_dry_changes changes;
    struct mt_dry_changes places; /* for the unchanged program: the changes that it has a place for */
    mt_trial_outcome outcome;
    struct mt_replay_result peak; /* with ample memory; fits: on the device */
    int64_t rank;                 /* the rank that needs most of its card; -1: not a rank */
    int64_t sharers;              /* ranks on that card, whose peaks are summed */
    struct mt_text words; /* where the change was made, why it does not apply, or how the program failed; owned */
};

/* Makes trials in any order: runs the program with trial->changes, and sets the other fields. A program that fails is
 * not an error. If the unchanged program fails, the other trials need not be made. */
typedef mt_status (*mt_dry_try)(void *context, struct mt_dry_trial *const *trials, size_t count);

/* The result of a search.
 * Invariants: nothing is combined if the program fits unchanged or with a single change; each of combined[] has one
 * change more than the previous one, and reserves less. */
struct mt_dry_fit {
    struct mt_dry_trial plain;
    struct mt_dry_trial single[MT_DRY_CHANGE_COUNT];
    struct mt_dry_trial combined[MT_DRY_CHANGE_COUNT];
    size_t combined_count;
};

/* Finds the answer, with a trial for each change, and one for each change that is added to others. Fails if a trial
 * does, and with MT_FAILED if a trial of several changes was killed. Release in any case. */
mt_status mt_dry_fit_find(mt_dry_try make, void *context, struct mt_dry_fit *out);
void mt_dry_fit_release(struct mt_dry_fit *fit);

/* Returns the first trial with changes that fits: the cheapest single change, or a combination; NULL if none fits. */
const struct mt_dry_trial *mt_dry_fit_best(const struct mt_dry_fit *fit);

/* Reads the peaks of a dry run with ample memory. out->fits: the peak of reserved bytes is at most capacity_bytes, or a
 * replay that frees cached memory fits. */
mt_status mt_dry_run_peak(const struct mt_question *run, uint64_t capacity_bytes, struct mt_replay_result *out);
