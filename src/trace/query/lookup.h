/* Look-ups around single events: each reads a few rows, however long the run. Ownership, failures and threads as in
 * trace.h. */
#pragma once

#include "base/event.h"
#include "base/label.h"
#include "trace/query/trace.h"

/* Finds the step that an event belongs to: the last that had begun, since an event between two steps counts with the
 * earlier one; -1 if none had. */
mt_status mt_trace_step_of(struct mt_trace *trace, const struct mt_run *run, int64_t event, int64_t *out_step);

/* Reads the bytes that the event directly after `event` requested and got; 0 if it is no allocation. */
mt_status mt_trace_request_after(struct mt_trace *trace, const struct mt_run *run, int64_t event, uint64_t *out_bytes);

/* Finds the first event of a kind from `first` on; of MT_EVENT_PHASE, the first that begins `phase`, MT_PHASE_COUNT
 * meaning any. 0: there is none. */
mt_status mt_trace_next_event(struct mt_trace *trace, const struct mt_run *run, int64_t first, mt_event_kind kind,
                              mt_phase phase, int64_t *out_event);

/* A block that is live after `event`, and the events of the step in which its free is looked for. */
struct mt_free_search {
    int64_t alloc_event, event;
    int64_t first, last;
};

/* Finds the phase of that step in which the block was freed; "" if it was not, or in no known phase. */
mt_status mt_trace_phase_of_free(struct mt_trace *trace, const struct mt_run *run, const struct mt_free_search *search,
                                 const char **out_phase);
