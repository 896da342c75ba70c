/* What was free when a run took its last segment, and why it took it; for query_diff.c. */
#ifndef MT_TRACE_QUERY_DIFF_RESERVED_H
#define MT_TRACE_QUERY_DIFF_RESERVED_H

#include "analysis/diff.h"

/* Sets the side's fields of reserved bytes. Texts are kept in `keeper`. */
mt_status diff_reserved_read(const struct mt_diff_run *at, struct mt_trace *keeper, struct mt_diff_side *side);

/* The phase of the step [first, last] in which the block of `alloc_event`, live after `event`, was freed; "" if it was not,
 * or nobody said in which. */
struct diff_free {
    int64_t alloc_event, event; /* event ids, as are those of the step */
    int64_t first, last;
};
mt_status diff_phase_of_free(const struct mt_diff_run *at, const struct diff_free *wanted, const char **out_phase);

#endif
