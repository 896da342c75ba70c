/* Makes a trace whole after the process that wrote it was killed. */
#ifndef MT_TRACE_RECOVERY_H
#define MT_TRACE_RECOVERY_H

#include "trace/store/connection.h"
#include "trace/store/ring.h"

/* Ends every run that has not ended: stores the records that `ring` still holds, writes the summary and marks the run
 * `interrupted`, or `failed` if its writer had failed. The ring must be claimed and its writer dead; it stays the caller's.
 * If it is NULL, the stored events are all there are. May be repeated, also after a kill in between. */
mt_status mt_recovery_run(struct mt_database *database, struct mt_ring *ring);

/* *out_due is true if there is a run that has not ended: its process lives, or the run needs recovery. */
mt_status mt_recovery_is_due(struct mt_database *database, bool *out_due);

#endif
