/* A trace that is changed without anyone seeing it: for making one whole that lies where nothing can be written. */
#ifndef MT_TRACE_PRIVATE_COPY_H
#define MT_TRACE_PRIVATE_COPY_H

#include "trace/store/database.h"

/* Where a copy may lie: in TMPDIR, /tmp or /dev/shm, in that order. */
enum { MT_PRIVATE_COPY_PLACES = 3 };

/* Copies the trace at `path`, with its journal, to one of the places and opens the copy for writing. The copy has no name
 * any more when this returns and is gone when the connection closes. Nobody may be writing the trace. MT_FAILED if there
 * is no room, now or once something is written: then another place may do. */
mt_status mt_private_copy_open(const char *path, int place, struct mt_database **out);

#endif
