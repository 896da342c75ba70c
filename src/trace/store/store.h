/* Opens a trace for reading in any state: closed properly, left by a killed process, or being written by a
 * live one; in a folder that is writable or not. */
#pragma once

#include "trace/store/connection.h"
#include "trace/store/database.h"
#include "trace/store/ring.h"

/* Opens the trace at `path` for reading and recovers it first:
 *  - its last writer was killed: the records still in the ring are stored, the summaries are written and the run
 *    becomes `interrupted`. If the file can't be written, or its disk is full, this happens in a private copy;
 *  - a live process writes it: its ring is not touched. The reader sees the events that were committed when it opened
 *    the trace. The summary tables of that run (summary_peak, summary_peak_role, summary_peak_category,
 *    summary_category, summary_allocation) are derived into temporary views with the same names, so that queries need
 *    no special case. This reads the run's events once.
 *
 * Resolves a symbolic link first, since the ring is next to the target. Fails with MT_BAD_TRACE if there is no such
 * file or it is not a trace. */
mt_status mt_store_open_reading(const char *path, struct mt_database **out);

/* ---- recovering a trace after the process that wrote it was killed ---- */

/* Ends every run that has not ended: stores the records still in `ring`, writes the summary and marks the run
 * `interrupted`, or `failed` if its writer had failed, or `damaged` if the ring no longer has all of its records; then
 * *out_damaged is set. The ring must be claimed and its writer dead; it stays the caller's. If it is NULL, only the
 * stored events are left. May be repeated, also after a kill in between. */
mt_status mt_recovery_run(struct mt_database *database, struct mt_ring *ring, bool *out_damaged);
