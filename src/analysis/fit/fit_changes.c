#include "analysis/fit/fit_changes.h"

struct mt_run_plan mt_fit_with_size(struct mt_run_plan plan, mt_setting size, int64_t value)
{
    mt_setting_set_size(size, value, &plan);
    return plan;
}

struct mt_fit_changes mt_fit_changes_for(const struct mt_run_plan *plan, mt_setting change)
{
    struct mt_fit_changes changes = {0};
    changes.has[change] = true;
    if (mt_setting_table[change].is_of_fused && mt_setting_can_change(MT_SETTING_IMPL, plan))
        changes.has[MT_SETTING_IMPL] = true;
    return changes;
}

mt_setting mt_fit_changes_dearest(struct mt_fit_changes changes)
{
    mt_setting settings[MT_SETTING_COUNT];
    for (size_t i = mt_settings_in_order(MT_ORDER_OF_CHANGES, settings); i-- > 0;)
        if (changes.has[settings[i]])
            return settings[i];
    return MT_SETTING_COUNT;
}

struct mt_fit_changes mt_fit_changes_join(struct mt_fit_changes a, struct mt_fit_changes b)
{
    for (mt_setting change = 0; change < MT_SETTING_COUNT; change++)
        a.has[change] = a.has[change] || b.has[change];
    return a;
}

/* Fused has its own attention, and an update in backward leaves no gradients to free. */
struct mt_fit_changes mt_fit_changes_without_overlap(struct mt_fit_changes changes)
{
    if (changes.has[MT_SETTING_IMPL])
        changes.has[MT_SETTING_ATTENTION] = false;
    if (changes.has[MT_SETTING_OPTIMIZER_IN_BACKWARD])
        changes.has[MT_SETTING_ZERO_GRAD] = false;
    return changes;
}

struct mt_run_plan mt_fit_changes_apply(struct mt_run_plan plan, struct mt_fit_changes changes)
{
    mt_setting settings[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_CHANGES, settings);
    for (size_t i = 0; i < count; i++)
        if (changes.has[settings[i]])
            mt_setting_change(settings[i], &plan);
    return plan;
}
