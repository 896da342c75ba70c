/* The pair of runs that is compared if none is named. */
#include "analysis/diff.h"
#include "analysis/run_settings.h"
#include "base/memory.h"

#include <stdlib.h>

static bool is_candidate(const struct mt_run *run)
{
    return mt_run_is(run, MT_RUN_DONE) && run->event_count > 0;
}

/* Returns the newest run before `newer` that differs from it in one setting only; NULL if there is none. */
static const struct mt_run *find_partner(const struct mt_run *runs, const struct mt_settings *settings, size_t newer)
{
    struct mt_settings_difference difference;
    for (size_t older = newer; older-- > 0;) {
        if (!is_candidate(&runs[older]))
            continue;
        mt_settings_compare(&settings[older], &settings[newer], MT_SETTINGS_OF_MEMORY, &difference);
        if (difference.different_count == 1 && difference.unknown_count == 0)
            return &runs[older];
    }
    return NULL;
}

mt_status mt_diff_pair_find(struct mt_trace *trace, const struct mt_run **out_a, const struct mt_run **out_b)
{
    *out_a = *out_b = NULL;
    size_t count;
    const struct mt_run *runs = mt_trace_runs(trace, &count), *newest;
    mt_status status = mt_trace_find_run(trace, NULL, &newest); /* fails if there is none */
    if (status != MT_OK)
        return status;
    struct mt_settings *settings = mt_host_alloc(count * sizeof *settings);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = mt_settings_load(trace, &runs[i], &settings[i]);
    for (size_t newer = count; status == MT_OK && *out_a == NULL && newer-- > 0;) {
        *out_b = &runs[newer];
        if (is_candidate(*out_b))
            *out_a = find_partner(runs, settings, newer);
    }
    for (size_t i = 0; i < count; i++)
        mt_settings_release(&settings[i]);
    free(settings);
    return status;
}
