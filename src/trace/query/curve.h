/* Allocated bytes over the time of a run, as a few numbers: for small charts. */
#pragma once

#include "trace/query/trace.h"

enum { MT_CURVE_BINS = 256 };

/* bytes[i] is the most that was allocated at a time t with i * bin_ns <= t < (i + 1) * bin_ns, so the highest is the run's peak.
 * Invariants: bin_ns is a power of two; count <= MT_CURVE_BINS, and more than half of that unless bin_ns is 1 or the run is
 * empty; bytes[count - 1] has the last event. */
struct mt_curve {
    uint64_t bin_ns, duration_ns;
    uint64_t bytes[MT_CURVE_BINS];
    size_t count; /* 0: the run has no event */
};

/* Reads all events of the run once, which takes some 200 ns each. Where the clock fell, it is taken to have stood. */
mt_status mt_trace_curve(struct mt_trace *trace, const struct mt_run *run, struct mt_curve *out);
