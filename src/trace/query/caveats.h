/* The caveats of a run: facts that make its figures less than complete or less than certain (trace/store/caveat.h). As
 * trace.h says of ownership, failures and threads. */
#pragma once

#include "trace/query/trace.h"
#include "trace/store/caveat.h"

/* Reads the caveats of a run by kind, in the order of the enumeration, and within a kind by bytes, then by count, the
 * largest first. Skips kinds that this program does not know. A dry run that an older program stored has the sum of its
 * unknown operators as one caveat, "(all operators)". */
mt_status mt_trace_caveats(struct mt_trace *trace, const struct mt_run *run, struct mt_caveat **out_rows,
                           size_t *out_count);
