/* Changes to a run that lower its memory, and the run with them. Nothing is simulated here. */
#ifndef MT_CLI_FIT_CHANGES_H
#define MT_CLI_FIT_CHANGES_H

#include "cli/run/simulation.h"

/* A change to a run that lowers its memory, from the cheapest for who trains to the dearest. */
typedef enum mt_fit_change {
    MT_CHANGE_ZERO_GRAD,   /* before-forward */
    MT_CHANGE_ALLOC,       /* policy=tight */
    MT_CHANGE_AUTOCAST,    /* the other one: bf16, or off, where the casts of the weights cost more than they save; of
                              fused not off, since casts of a layer take less */
    MT_CHANGE_ATTENTION,   /* flash, where heads are of a size for it, else weights */
    MT_CHANGE_IMPL,        /* fused; under autocast with weights cast layer by layer */
    MT_CHANGE_WEIGHT_CAST, /* of fused, under autocast: layer by layer */
    MT_CHANGE_OPTIMIZER,   /* in backward; with fused, which knows it */
    MT_CHANGE_CHECKPOINT,  /* of blocks; with fused, which knows it */
    MT_CHANGE_BATCH,       /* smaller */
    MT_CHANGE_SEQ,         /* shorter */
    MT_CHANGE_COUNT
} mt_fit_change;

/* Which of them. */
struct mt_fit_changes {
    bool has[MT_CHANGE_COUNT];
};

/* Whether the run is not so already, and would differ with it. */
bool mt_fit_change_is_one(const struct mt_run_plan *plan, mt_fit_change change);

/* Whether it is to a size, so that the run trains on less at once. */
bool mt_fit_change_is_cut(mt_fit_change change);

/* The change, and of an eager run the implementation that knows it. */
struct mt_fit_changes mt_fit_changes_for(const struct mt_run_plan *plan, mt_fit_change change);

/* The last of them; MT_CHANGE_COUNT: there is none. */
mt_fit_change mt_fit_changes_dearest(struct mt_fit_changes changes);

struct mt_fit_changes mt_fit_changes_join(struct mt_fit_changes a, struct mt_fit_changes b);

/* Without those that another of them makes pointless. */
struct mt_fit_changes mt_fit_changes_without_overlap(struct mt_fit_changes changes);

/* The plan with all of these changes; sizes become 1, the least that there is. */
struct mt_run_plan mt_fit_changes_apply(struct mt_run_plan plan, struct mt_fit_changes changes);

/* The plan's batch, or with MT_CHANGE_SEQ its sequence, and the plan with another one. */
int64_t mt_fit_size(const struct mt_run_plan *plan, mt_fit_change change);
struct mt_run_plan mt_fit_with_size(struct mt_run_plan plan, mt_fit_change change, int64_t size);

#endif
