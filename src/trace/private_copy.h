/* A trace that is changed without anyone seeing it: for making one whole that lies where nothing can be written. */
#ifndef MT_TRACE_PRIVATE_COPY_H
#define MT_TRACE_PRIVATE_COPY_H

#include "trace/database.h"

/* Copies the trace at `path`, with its journal, to TMPDIR, /tmp or /dev/shm, whichever has room, and opens the copy for
 * writing. The copy has no name any more when this returns and is gone when the connection closes. Nobody may be writing
 * the trace. */
mt_status mt_private_copy_open(const char *path, struct mt_database **out);

#endif
