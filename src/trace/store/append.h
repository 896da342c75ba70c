/* Appends the runs of one trace to another, for programs that run in parallel with separate traces, and whose runs
 * belong in one trace in a given order.
 *
 * Threads: one at a time for a trace. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* Appends all runs of the trace at `from` to the trace at `to`, which is created if needed. Appends nothing after a
 * failure. Run N of `from` becomes run N + *out_shift. Fails with MT_FAILED if another process writes `to`, and as
 * mt_store_open_reading and mt_database_open_writing do. */
mt_status mt_trace_append(const char *from, const char *to, int64_t *out_shift);
