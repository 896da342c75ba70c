/* Changes to a run that lower its memory, and their application to a plan. Nothing is simulated here. */
#pragma once

#include "producers/model/simulation.h"

/* A subset of the settings that can lower memory (MT_ORDER_OF_CHANGES), each changed to the value with the largest
 * effect. */
struct mt_fit_changes {
    bool has[MT_SETTING_COUNT];
};

/* Returns the change and, for an eager run, the implementation that supports it. */
struct mt_fit_changes mt_fit_changes_for(const struct mt_run_plan *plan, mt_setting change);

/* Returns the change that slows training most; MT_SETTING_COUNT if there is none. */
mt_setting mt_fit_changes_dearest(struct mt_fit_changes changes);

struct mt_fit_changes mt_fit_changes_join(struct mt_fit_changes a, struct mt_fit_changes b);

/* Returns the changes without those that another one makes pointless. */
struct mt_fit_changes mt_fit_changes_without_overlap(struct mt_fit_changes changes);

/* Returns the plan with all these changes; sizes are cut to their minimum. */
struct mt_run_plan mt_fit_changes_apply(struct mt_run_plan plan, struct mt_fit_changes changes);

/* Returns the plan with another batch or sequence. */
struct mt_run_plan mt_fit_with_size(struct mt_run_plan plan, mt_setting size, int64_t value);
