/* The recorder: a sink that writes a run into a trace.
 *
 *   allocator ──emit──▶ ring (a shared mapping of TRACE-ring) ──writer thread──▶ SQLite (TRACE)
 *
 * emit copies 64 bytes and returns; a thread of the recorder drains the ring into the database. What was emitted
 * survives the process: after a kill, the next opening of the trace stores what the ring still holds. When the ring is
 * full emit waits, and the run records how often and how long. If the writer fails (disk full), emit goes on without
 * waiting, what it can't keep is counted as lost, and the close reports the first error. */
#ifndef MT_TRACE_RECORDER_H
#define MT_TRACE_RECORDER_H

#include "base/sink.h"
#include "trace/store/trace_names.h"

#include <stddef.h>

struct mt_recorder;

/* What is known of a run before it begins. All text is copied. */
struct mt_run_info {
    const char *name; /* NULL: none */
    const char *device;
    uint64_t capacity_bytes;
    const struct mt_run_setting {
        const char *name, *value;
    } * settings;
    size_t setting_count;
    uint64_t ring_records; /* capacity of the ring in 64-byte records, rounded up to a power of two; 0: a million */
};

/* Opens or creates the trace at `path`, recovers what an earlier process left in its ring, adds a run and commits its
 * row: the recorder's run, until it is ended. Fails if another process is writing the trace (MT_FAILED, with its pid), if
 * the file is not a trace (MT_BAD_TRACE), if it has several names, or if the ring can't be allocated in full
 * (MT_FAILED). */
mt_status mt_recorder_open(const char *path, const struct mt_run_info *info, struct mt_recorder **out);

/* The sink to hand to an allocator; borrowed, valid until close. One thread at a time. */
const struct mt_sink *mt_recorder_sink(struct mt_recorder *recorder);

/* What the labels and spans stand for that the sink gave; borrowed, valid until close. As emit: one thread at a time. */
struct mt_interner;
const struct mt_interner *mt_recorder_interner(const struct mt_recorder *recorder);

/* The number of the run in the trace. */
int64_t mt_recorder_run(const struct mt_recorder *recorder);

/* Keeps a number with the run ("loss", step 2, 4.08); step -1 where there is none. As emit: one thread at a time. */
void mt_recorder_measure(struct mt_recorder *recorder, const char *name, int64_t step, double value);

/* Stores the rest, and writes the summaries and the run's state; the trace stays open for another run. The first error
 * of the run's whole life, if there was one: then the recorder can only be closed, as what was not stored waits in the
 * ring. */
mt_status mt_recorder_end(struct mt_recorder *recorder, mt_run_state state);

/* Adds another run, after one was ended, much sooner than by opening the trace again, which waits for the disk many
 * times. The sink stays the same, but knows no label and no span any more; the interner is another. After a failure the
 * recorder can only be closed. */
mt_status mt_recorder_begin(struct mt_recorder *recorder, const struct mt_run_info *info);

/* Ends the run as above, if it has not ended, removes the ring and folds the WAL into the file. Frees the recorder in
 * any case. The first error of all that, if there was one. `recorder` may be NULL. */
mt_status mt_recorder_close(struct mt_recorder *recorder, mt_run_state state);

/* In a forked child, which has a copy of a recorder that records nothing there: lets go of the trace, or the child
 * would hold it for as long as it lives. From pthread_atfork. The copy can't be used after that, nor closed. */
void mt_recorder_disown(struct mt_recorder *recorder);

#endif
