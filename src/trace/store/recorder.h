/* The recorder: a sink that writes a run into a trace.
 *
 *   allocator ──emit──▶ ring (a shared mapping of TRACE-ring) ──writer thread──▶ SQLite (TRACE)
 *
 * emit copies 64 bytes and returns; a thread of the recorder drains the ring into the database. Emitted events survive
 * the emit copies 64 bytes and returns; a thread of the recorder drains the ring into the database. Emitted events
 * survive the process: after a kill, the next opening of the trace stores the records that are still in the ring. If
 * the ring is full, emit waits, and the run's row records how often and how long. If the writer fails (disk full), emit
 * continues without waiting, events without room count as lost, and the close reports the first error. */
#pragma once

#include "base/sink.h"
#include "trace/store/caveat.h"
#include "trace/store/holder.h"
#include "trace/store/program_phase.h"
#include "trace/store/run_setting.h"
#include "trace/store/trace_names.h"

#include <stddef.h>

struct mt_recorder;

/* The place of a process in a training job on several cards. */
struct mt_run_rank {
    int64_t rank, local_rank, world_size; /* local_rank: on its host; world_size: processes of the job; -1: not known */
};

/* The source of a run's events: this process, whose id and host the row contains, or another program's file. */
typedef enum mt_run_origin { MT_RUN_LIVE, MT_RUN_IMPORTED } mt_run_origin;

/* The facts about a run that are known before it begins. All text is copied. */
struct mt_run_info {
    const char *name; /* NULL: none */
    const char *device;
    mt_run_origin origin;
    const struct mt_run_rank *rank; /* NULL: the process is not part of a job */
    const char *job;                /* the same for all ranks of a job; NULL: not known */
    uint64_t start_us;              /* at which the run began, since 1970; 0: now */
    uint64_t capacity_bytes;
    const struct mt_run_setting *settings;
    size_t setting_count;
    int wait_seconds;      /* to wait for another process that writes the trace; 0: a moment */
    uint64_t ring_records; /* capacity of the ring in 64-byte records, rounded up to a power of two; 0: a million */
};

/* Opens or creates the trace at `path`, stores the records that an earlier process left in its ring, adds a run and
 * commits its row. Fails with MT_BAD_TRACE if the file is not a trace, and with MT_NOT_WRITTEN if it can't be written:
 * without permission, if another process is writing it (the text has its pid), if the file has several names, or if the
 * ring can't be allocated in full. Later failures are MT_NOT_WRITTEN, too. */
mt_status mt_recorder_open(const char *path, const struct mt_run_info *info, struct mt_recorder **out);

/* Returns the sink for an allocator; borrowed, valid until close. One thread at a time. */
const struct mt_sink *mt_recorder_sink(struct mt_recorder *recorder);

/* Returns the labels and spans of the sink's ids; borrowed, valid until close. One thread at a time, together with
 * the sink. */
struct mt_interner;
const struct mt_interner *mt_recorder_interner(const struct mt_recorder *recorder);

/* Returns the number of the run in the trace. */
int64_t mt_recorder_run(const struct mt_recorder *recorder);

/* Stores a measurement of the run ("loss", step 2, 4.08); step -1 if it belongs to no step. One thread at a time,
 * together with the sink. */
void mt_recorder_measure(struct mt_recorder *recorder, const char *name, int64_t step, double value);

/* Stores a caveat of the run, replacing an earlier one with the same kind, name and place. Copies the texts. One thread
 * at a time, together with the sink. */
void mt_recorder_caveat(struct mt_recorder *recorder, const struct mt_caveat *caveat);

/* Stores a setting that was not known when the run began, replacing an earlier value. Copies the texts. One thread at a
 * time, together with the sink. */
void mt_recorder_set(struct mt_recorder *recorder, const struct mt_run_setting *setting);

/* Begins another phase of the program, and ends the one before. One thread at a time, together with the sink. */
void mt_recorder_program_phase(struct mt_recorder *recorder, mt_program_phase phase);

/* Stores a holder of a live block; nothing if no block begins at its address. Copies the texts. One thread at a time,
 * together with the sink. */
void mt_recorder_holder(struct mt_recorder *recorder, const struct mt_holder *holder);

/* Stores why the run ended. The last reason counts. One thread at a time, together with the sink. */
void mt_recorder_ended_by(struct mt_recorder *recorder, mt_ended_by reason);

/* Returns once everything so far is stored, or with the first error. One thread at a time, together with the sink. */
mt_status mt_recorder_flush(struct mt_recorder *recorder);

/* Ends the run: stores the rest, and writes the summary and the run's state. The trace stays open for another run.
 * Returns the first error since the run began. After an error the recorder can only be closed: records that were not
 * stored stay in the ring. */
mt_status mt_recorder_end(struct mt_recorder *recorder, mt_run_state state);

/* Adds another run after one was ended. That is much faster than opening the trace again, which waits for the disk many
 * times. The sink stays the same, but its earlier labels and spans are no longer valid, nor is the interner. After a
 * failure the recorder can only be closed. */
mt_status mt_recorder_begin(struct mt_recorder *recorder, const struct mt_run_info *info);

/* Ends the run if it has not ended, removes the ring, folds the WAL into the file and frees the recorder, also after a
 * failure. Returns the first error. `recorder` may be NULL. */
mt_status mt_recorder_close(struct mt_recorder *recorder, mt_run_state state);

/* Releases the trace in a forked child, for pthread_atfork: the child's copy of the recorder records nothing, but would
 * keep the ring's lock as long as the child lives. Afterwards the copy can't be used or closed. */
void mt_recorder_disown(struct mt_recorder *recorder);
