/* The peak of live blocks without those of one category, such as what Inductor's autotuning takes in a first run.
 *
 * Ownership and threads: as trace.h. */
#pragma once

#include "trace/query/blocks.h"

/* Sets *out_is_used to whether any label of the run has the category, and *out_bytes to the highest sum of live blocks,
 * with rounding, of all other categories; 0 if the category is not used. Reads the events up to the end of the run. */
mt_status mt_trace_peak_without(struct mt_trace *trace, const struct mt_run *run, const char *category,
                                bool *out_is_used, uint64_t *out_bytes);
