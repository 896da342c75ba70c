/* Saving what can be read of a damaged trace, into a new one.
 *
 * A run keeps its events up to the first that is missing or is not what was stored, as after the death of its process. Texts
 * that can't be read any more are called "(lost)". Everything that is derived is derived anew. A run that lost events is
 * `damaged`. Ids of runs and events stay. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* The part of a run that was saved. */
struct mt_salvaged_run {
    int64_t run, events;   /* saved */
    int64_t stored_events; /* that there were */
    int64_t lost_names;    /* labels, spans, stacks and frames that are called "(lost)" */
};

struct mt_salvage_visitor {
    void *context;
    void (*run)(void *context, const struct mt_salvaged_run *run);
};

/* Writes what can be read of the trace at `from` into a new trace at `to`, and tells of each run. `from` stays as it is; a
 * ring beside it is not read. Fails with MT_USAGE if there is a file at `to`; with MT_BAD_TRACE if nothing can be read. After
 * a failure there is no file at `to`. */
mt_status mt_salvage_trace(const char *from, const char *to, const struct mt_salvage_visitor *visitor);
