/* The trace of a card, behind a sink that outlives it: once the trace has ended, labels are interned and nothing is stored.
 *
 * Threads: any, except for begin. */
#ifndef MT_TORCH_TORCH_TRACE_H
#define MT_TORCH_TORCH_TRACE_H

#include "base/lock.h"
#include "base/sink.h"
#include "trace/store/recorder.h"

/* Invariants: `target` is the recorder's sink while there is one, and else one that discards
 * events; is_open == (recorder != NULL) under the lock. */
struct mt_torch_trace {
    struct mt_lock lock;
    struct mt_recorder *recorder; /* NULL: nothing is stored */
    atomic_bool is_open;          /* the same, for reading without the lock */
    struct mt_interner *interner; /* of categories; and of labels once the trace has ended */
    struct mt_sink target;
};

/* Begins a trace whose recorder is there, or NULL: then nothing is stored. */
void mt_torch_trace_begin(struct mt_torch_trace *trace);

/* Returns the sink of the trace, which borrows it. Without a recorder it has no emit, so that the allocator makes no
 * events. */
struct mt_sink mt_torch_trace_sink(struct mt_torch_trace *trace);

/* Take the trace's lock and return its target, and give the lock back. */
struct mt_sink *mt_torch_trace_enter(struct mt_torch_trace *trace);
void mt_torch_trace_leave(struct mt_torch_trace *trace);

#endif
