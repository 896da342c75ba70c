#include "trace/store/trace_names.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name, *words;
} states[MT_RUN_STATE_COUNT] = {
    [MT_RUN_RUNNING] = {"running", "is still running"},
    [MT_RUN_DONE] = {"done", "is done"},
    [MT_RUN_FAILED] = {"failed", "ended with a failure"},
    [MT_RUN_OOM] = {"oom", "ended out of memory"},
    [MT_RUN_INTERRUPTED] = {"interrupted", "was interrupted: its process died"},
    [MT_RUN_DAMAGED] = {"damaged", "is damaged: it lacks its end"},
};

const char *mt_run_state_name(mt_run_state state)
{
    assert(state < MT_RUN_STATE_COUNT);
    return states[state].name;
}

const char *mt_run_state_words(const char *stored)
{
    for (int state = 0; state < MT_RUN_STATE_COUNT; state++)
        if (strcmp(stored, states[state].name) == 0)
            return states[state].words;
    return stored;
}

const char *mt_measure_name(mt_measure measure)
{
    static const char *const names[MT_MEASURE_COUNT] = {"allocated", "requested", "reserved"};
    assert(measure < MT_MEASURE_COUNT);
    return names[measure];
}
