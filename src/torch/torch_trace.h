/* A card's trace, which may end while the allocator lives on: programs free their last tensors after everything else.
 *
 *   allocator ──▶ the sink here ──▶ recorder, until the end; then only labels are numbered
 *
 * Threads: any. */
#ifndef MT_TORCH_TORCH_TRACE_H
#define MT_TORCH_TORCH_TRACE_H

#include "base/sink.h"
#include "trace/store/recorder.h"

struct mt_torch_trace;

/* Without a path nothing is recorded from the beginning. As mt_recorder_open. */
mt_status mt_torch_trace_open(const char *path, const struct mt_run_info *info, struct mt_torch_trace **out);

/* For one allocator; borrows the trace. */
struct mt_sink mt_torch_trace_sink(struct mt_torch_trace *trace);

/* Whether something is recorded now. */
bool mt_torch_trace_is_open(const struct mt_torch_trace *trace);

/* Keeps a number with the run, if one is recorded. */
void mt_torch_trace_measure(struct mt_torch_trace *trace, const char *name, int64_t step, double value);

/* Ends the recording; as mt_recorder_close. Again does nothing. */
mt_status mt_torch_trace_end(struct mt_torch_trace *trace, mt_run_state state);

/* After the allocator. */
void mt_torch_trace_destroy(struct mt_torch_trace *trace);

#endif
