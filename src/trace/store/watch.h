/* Watches a run that is being written: its current memory, and its activity since the last look.
 *
 *   trace ──mt_watch_look, about once a second──▶ the events since the last look ──▶ summary ──▶ struct mt_watched
 *
 * A look reads the rows that the writer has committed, at most a tenth of a second old, and closes the trace again: a
 * permanent connection would keep the writer from folding its log into the file. Each event is read once. The program
 * that writes the run is not affected, except for the processor's time.
 *
 * Threads: one at a time. */
#pragma once

#include "base/event.h"
#include "base/status.h"
#include "trace/store/trace_names.h"

#include <stddef.h>

struct mt_watch;

/* The bytes of one category, role or holder. */
struct mt_watched_part {
    const char *name;
    uint64_t bytes;
};

/* A run as of the last look. Texts and arrays are borrowed from the watch until the next look. Invariants: a peak is
 * never lower than the current bytes; the categories' bytes sum to now[allocated], and so do the roles'. */
struct mt_watched {
    int64_t run, rank; /* rank -1: none */
    const char *name;  /* NULL: none */
    const char *device;
    bool is_running;
    uint64_t capacity_bytes;
    uint64_t now[MT_MEASURE_COUNT];
    uint64_t peak[MT_MEASURE_COUNT];        /* of the run */
    uint64_t recent_peak[MT_MEASURE_COUNT]; /* since mt_watch_begin_recent, or since the first look */
    uint64_t step_peak[MT_MEASURE_COUNT];   /* of the last step that ended; 0: none did */
    uint64_t events, allocations, frees, refusals;
    int64_t steps, last_step;                         /* steps that ended; the number of the last one, -1: none */
    uint64_t time_ns;                                 /* of the last event, from the start of the run */
    size_t category_count, role_count, outside_count; /* parts without bytes are left out */
    const struct mt_watched_part *categories, *roles;
    const struct mt_watched_part *outside; /* outside the allocator: "nccl", "context" */
};

/* Begins to watch the trace at `path`, which need not exist yet. Skips runs up to number `after`. Watches the newest of
 * the others, even if it has ended. Copies the path. */
struct mt_watch *mt_watch_create(const char *path, int64_t after);
void mt_watch_destroy(struct mt_watch *watch); /* may be NULL */

/* Returns the number of the newest run of the trace at `path`; 0 if there is none, or no trace. */
int64_t mt_watch_newest_run(const char *path);

/* Looks. *out is NULL if there is no trace or no such run yet. A run is watched until a newer one begins. Fails
 * with MT_BAD_TRACE if the file is not a trace or is damaged. */
mt_status mt_watch_look(struct mt_watch *watch, const struct mt_watched **out);

/* Restarts the recent peaks at the current bytes. */
void mt_watch_begin_recent(struct mt_watch *watch);
