/* Opening a trace that anyone may have left in any state: written to by a live process, by one that was killed, or
 * closed in order; in a folder that can be written, or not. */
#ifndef MT_TRACE_STORE_H
#define MT_TRACE_STORE_H

#include "trace/store/database.h"

/* Opens the trace at `path` for reading and makes it whole first:
 *  - nobody writes it and its last writer was killed: what that one's ring still holds is stored, the summaries are
 *    written and the run becomes `interrupted`. Where the file can't be written, or there is no room left on its disk, this
 *    happens in a private copy;
 *  - somebody is writing it: its ring is left alone. What is committed is seen, as of the opening, and the summary
 *    tables of that run (summary_peak, summary_peak_category, summary_category, summary_allocation) are derived into
 *    temporary views of the same names, so that queries need no second way. This reads the run's events once.
 *
 * A symbolic link is followed to the file whose ring is meant. MT_BAD_TRACE if there is no such file or it is not a
 * trace. */
mt_status mt_store_open_reading(const char *path, struct mt_database **out);

#endif
