/* Allocated bytes over a run, as a few numbers: for small charts. */
#pragma once

#include "trace/query/trace.h"

enum { MT_CURVE_BINS = 256 };

typedef enum mt_curve_axis {
    MT_CURVE_BY_TIME, /* nanoseconds since the run began */
    MT_CURVE_BY_EVENT /* events of the run, from 0: for a dry run, whose times are its host's */
} mt_curve_axis;

/* bytes[i] is the most that was allocated at a place x of the axis with i * bin <= x < (i + 1) * bin, so the highest is
 * the run's peak.
 * Invariants: bin is a power of two; count <= MT_CURVE_BINS, and more than half of that unless bin is 1 or the run is
 * empty; bytes[count - 1] has the last event, which is at `end`. */
struct mt_curve {
    uint64_t bin, end;
    uint64_t bytes[MT_CURVE_BINS];
    size_t count; /* 0: the run has no event */
};

/* Reads all events of the run once, which takes some 200 ns each. Where the clock fell, it is taken to have stood. */
mt_status mt_trace_curve(struct mt_trace *trace, const struct mt_run *run, mt_curve_axis axis, struct mt_curve *out);
