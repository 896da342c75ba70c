/* Makes a trace whole after the process that wrote it was killed. */
#ifndef MT_TRACE_RECOVERY_H
#define MT_TRACE_RECOVERY_H

#include "trace/store/database.h"
#include "trace/store/ring.h"

/* Stores what the ring (claimed; of a dead writer) still holds, writes the summaries of every run that was not ended and
 * marks it `interrupted` (or `failed`, if its writer had lost events). Doing it twice is harmless, also after being
 * killed in between. `ring` may be NULL: then only what is in the file counts. Leaves the ring to the caller. */
mt_status mt_recovery_run(struct mt_database *database, struct mt_ring *ring);

/* Whether there is a run that has not ended: its process lives, or it needs recovery. */
mt_status mt_recovery_is_due(struct mt_database *database, bool *out_due);

#endif
