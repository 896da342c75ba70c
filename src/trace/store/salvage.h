/* Saves the readable part of a damaged trace into a new one.
 *
 * A run keeps its events up to the first that is missing or damaged, as after the death of its process. Lost
 * texts become "(lost)". All derived tables are derived again. A run that lost events is
 * `damaged`. Ids of runs and events do not change. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* The part of a run that was saved. */
struct mt_salvaged_run {
    int64_t run, events;   /* saved */
    int64_t stored_events; /* before the damage */
    int64_t lost_names;    /* labels, spans, stacks and frames that became "(lost)" */
};

struct mt_salvage_visitor {
    void *context;
    void (*run)(void *context, const struct mt_salvaged_run *run);
};

/* Writes the readable part of the trace at `from` into a new trace at `to`, and reports each run. Does not change
 * `from`; its ring is not read. Fails with MT_USAGE if there is a file at `to`; with MT_BAD_TRACE if nothing can be
 * read. After a failure there is no file at `to`. */
mt_status mt_salvage_trace(const char *from, const char *to, const struct mt_salvage_visitor *visitor);
