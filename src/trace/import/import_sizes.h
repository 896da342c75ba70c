/* Sizes that a file tells, held to what can be: so no sum over a run overflows, here or in a column of the trace.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_IMPORT_SIZES_H
#define MT_TRACE_IMPORT_IMPORT_SIZES_H

#include "base/status.h"

#include <stdint.h>

/* Far beyond every card, and all sizes of a file together: 256 TiB and 2 EiB. What is taken and freed again counts each
 * time: at 1 TiB/s a program takes some three weeks to reach the sum. */
#define MT_IMPORT_MOST_BYTES (UINT64_C(1) << 48)
#define MT_IMPORT_MOST_SUM (UINT64_C(1) << 61)

/* Of one file. Invariant: sum <= MT_IMPORT_MOST_SUM. */
struct mt_import_sizes {
    uint64_t sum;
};

/* Counts a size. MT_BAD_TRACE, with the numbers, if it is too large, or the sum. */
mt_status mt_import_sizes_add(struct mt_import_sizes *sizes, uint64_t bytes);

#endif
