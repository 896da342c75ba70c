/* The sink of a run whose events come from several threads. It passes calls to a target, one at a time, and outlives
 * the trace: after that has ended, names are interned and nothing is stored.
 *
 *   allocator ──▶ source 0 ─┐  one at a time
 *                           ├─▶ the recorder, until the trace ends; then nothing
 *   notes ──────▶ source 1 ─┘
 *
 * With one source, events are passed unchanged. Two sources each number their events and segments from 0 and have their
 * own clocks. So their events get common numbers and the host's time, in the order of arrival. Uses are not stored,
 * since they refer to events.
 *
 * Threads: any, except for create and release; each source keeps the order of its own calls. */
#pragma once

#include "base/lock.h"
#include "base/sink.h"

enum { MT_LOCKED_SOURCES = 2 };

struct mt_interner;

/* Invariant: births[n] < locked->births is the common number of segment n of this source, for n < count. */
struct mt_locked_source {
    struct mt_locked_sink *locked;
    struct mt_sink sink; /* into which the source emits; without emit if nothing is stored */
    uint32_t *births;
    uint32_t count;
};

/* Invariants: is_open is false after the trace has ended, or if there is none; `target` then discards events; `names`
 * has the target's categories, with the same numbers. */
struct mt_locked_sink {
    struct mt_lock lock; /* held for every call of the target, also by other code */
    struct mt_sink target;
    atomic_bool is_open;
    struct mt_interner *names; /* categories; also labels and spans if nothing is stored */
    uint64_t start_ns, sequence;
    uint64_t last_ns; /* of the last common event: times never decrease */
    uint32_t births;  /* number of common segments so far */
    struct mt_locked_source sources[MT_LOCKED_SOURCES];
};

/* Copies the target, and borrows what it refers to until the end; NULL: nothing is stored. If `source_count` is 1, only
 * sources[0] may be used. The struct must not be moved while a source is in use. */
void mt_locked_sink_create(struct mt_locked_sink *locked, const struct mt_sink *target, int source_count);

/* Stops storing: the target is not called again. */
void mt_locked_sink_end(struct mt_locked_sink *locked);
void mt_locked_sink_release(struct mt_locked_sink *locked);

/* Lock and return the target; unlock. */
struct mt_sink *mt_locked_sink_enter(struct mt_locked_sink *locked);
void mt_locked_sink_leave(struct mt_locked_sink *locked);

/* Returns the ns since it was created. */
uint64_t mt_locked_sink_now_ns(const struct mt_locked_sink *locked);
