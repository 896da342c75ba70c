/* Changes to a run that lower its memory, and the run with them. Nothing is simulated here. */
#pragma once

#include "producers/model/simulation.h"

/* Some of the settings that can lower memory (MT_ORDER_OF_CHANGES), each changed to what lowers it most. */
struct mt_fit_changes {
    bool has[MT_SETTING_COUNT];
};

/* Returns the change, and of an eager run the implementation that knows it. */
struct mt_fit_changes mt_fit_changes_for(const struct mt_run_plan *plan, mt_setting change);

/* Returns the dearest of them for who trains, MT_SETTING_COUNT if there is none. */
mt_setting mt_fit_changes_dearest(struct mt_fit_changes changes);

struct mt_fit_changes mt_fit_changes_join(struct mt_fit_changes a, struct mt_fit_changes b);

/* Returns them without those that another of them makes pointless. */
struct mt_fit_changes mt_fit_changes_without_overlap(struct mt_fit_changes changes);

/* Returns the plan with all of these changes; sizes become the least to which they are cut. */
struct mt_run_plan mt_fit_changes_apply(struct mt_run_plan plan, struct mt_fit_changes changes);

/* Returns the plan with another batch or sequence. */
struct mt_run_plan mt_fit_with_size(struct mt_run_plan plan, mt_setting size, int64_t value);
