/* Which two runs of a trace are best compared, where nobody says. */
#ifndef MT_CLI_DIFF_PAIR_H
#define MT_CLI_DIFF_PAIR_H

#include "trace/query/trace.h"

/* The newest two finished runs that are known to differ in one setting and in no other that could change memory, the
 * older one first; of all that differ so from the newest run that has such a partner, the newest. MT_USAGE with what to
 * do if there are none. */
mt_status mt_diff_pair_find(struct mt_trace *trace, const struct mt_run **out_a, const struct mt_run **out_b);

#endif
