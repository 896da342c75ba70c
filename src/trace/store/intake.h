/* Converts records of the ring to rows. The writer thread uses it while a run is live, and recovery uses it after a
 * kill.
 *
 *   ring [position, end) ──store──▶ batch ──▶ event
 *                           │  └──▶ summary ──▶ segment, step, checkpoint, and at the end summary_*
 *                           ├─────▶ batch ──▶ block_use
 *                           └─────▶ label, span, measurement, kernel_name, kernel
 *
 * A commit writes the rows of records together with the position up to which records are stored. So a later reader
 * knows exactly which are missing.
 *
 * Threads: one at a time. */
#pragma once

#include "trace/store/connection.h"
#include "trace/store/ring.h"
#include "trace/store/trace_names.h"

struct mt_intake;

/* The end of a run, for its row. */
struct mt_run_end {
    mt_run_state state;
    uint64_t lost_events, stall_count, stall_ns;
    uint64_t missing_records; /* of the ring, from the first unreadable one on; 0: none, or unknown */
};

/* Creates the intake of the run with this id, which must have its row. First reads the run's stored events. Borrows
 * the database. The caller destroys *out, also after a failure. */
mt_status mt_intake_create(struct mt_database *database, int64_t run, struct mt_intake **out);

/* Discards uncommitted rows. Call it before the database is closed. `intake` may be NULL. */
void mt_intake_destroy(struct mt_intake *intake);

/* Returns the position below which records are stored and, after a commit, committed. */
uint64_t mt_intake_position(const struct mt_intake *intake);

/* Stores records from the position on, up to `end` or about `most` of them. Begins a transaction if there is none.
 * Stops at the first damaged record. */
mt_status mt_intake_store(struct mt_intake *intake, const struct mt_ring *ring, uint64_t end, uint64_t most);

/* True if the record at the position is damaged. */
bool mt_intake_is_at_damage(const struct mt_intake *intake);

/* True if there is something to commit. */
bool mt_intake_is_open(const struct mt_intake *intake);
mt_status mt_intake_commit(struct mt_intake *intake);

/* Writes the totals of the summary and the run's end, and commits. */
mt_status mt_intake_end(struct mt_intake *intake, const struct mt_run_end *end);
