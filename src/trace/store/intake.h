/* From records of the ring to rows: used by the writer thread while a run is live, and by recovery for what it left.
 *
 *   ring [position, end) ──store──▶ batch ──▶ event
 *                           │  └──▶ summary ──▶ segment, step, checkpoint, and at the end summary_*
 *                           ├─────▶ batch ──▶ block_use
 *                           └─────▶ label, span, measurement, kernel_name, kernel
 *
 * A commit writes the position up to which records are stored together with their rows, so that whoever comes later
 * knows exactly what is missing.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_INTAKE_H
#define MT_TRACE_INTAKE_H

#include "trace/store/database.h"
#include "trace/store/recorder.h"
#include "trace/store/ring.h"

struct mt_intake;

/* How a run ended, for its row. */
struct mt_run_end {
    mt_run_state state;
    uint64_t lost_events, stall_count, stall_ns;
};

/* For the run of this id, whose row is there; what is stored of it already is read back first. Borrows the database.
 * *out is to be destroyed also after a failure. */
mt_status mt_intake_create(struct mt_database *database, int64_t run, struct mt_intake **out);

/* Before the database is closed. Gives up what is not committed. `intake` may be NULL. */
void mt_intake_destroy(struct mt_intake *intake);

/* Records below this are stored (and, after a commit, committed). */
uint64_t mt_intake_position(const struct mt_intake *intake);

/* Stores records from the position on, up to `end` or about `most` of them; begins a transaction if there is none. */
mt_status mt_intake_store(struct mt_intake *intake, const struct mt_ring *ring, uint64_t end, uint64_t most);

/* Whether there is something to commit. */
bool mt_intake_is_open(const struct mt_intake *intake);
mt_status mt_intake_commit(struct mt_intake *intake);

/* Writes the summaries and the run's end, and commits. */
mt_status mt_intake_end(struct mt_intake *intake, const struct mt_run_end *end);

#endif
