/* A trace's name and what lies there, looked at before anything is opened or made.
 *
 * The ring lies beside the trace under the trace's own name, so everybody has to call a trace by the same one: a link is
 * followed once, here, and a file with several names is not written. */
#ifndef MT_TRACE_TRACE_FILE_H
#define MT_TRACE_TRACE_FILE_H

#include "base/status.h"

#include <stdbool.h>

/* The file that `path` leads to, which need not exist: `path` itself unless it is a symbolic link. *out is the caller's:
 * free(); NULL after a failure. MT_USAGE if the path is empty, MT_FAILED if it is a link to nothing. */
mt_status mt_trace_file_resolve(const char *path, char **out);

/* Whether there is a regular file. MT_BAD_TRACE if not, MT_FAILED if that can't be found out. */
mt_status mt_trace_file_check_reading(const char *path);

/* Whether a trace may be written there: over nothing, or a regular file of one name. MT_BAD_TRACE or MT_FAILED. */
mt_status mt_trace_file_check_writing(const char *path);

/* Whether the file, and files beside it, can be written, and it has no other name. */
bool mt_trace_file_is_writable(const char *path);

/* Whether there is an SQLite database under that name, as every trace is, also one that is being written. A pipe, which can
 * be read only once, is not looked into. */
bool mt_trace_file_is_database(const char *path);

#endif
