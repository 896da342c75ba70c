/* The path of a trace, checked before anything is opened or created.
 *
 * The ring has the trace's name with a suffix, so all processes must use the same name. A link is
 * resolved once, here, and a file with several names is not written. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

/* Resolves `path`: *out is a copy of it or, if it is a symbolic link, the path of its target. The caller frees *out,
 * which is NULL after a failure. The file need not exist. Fails with MT_USAGE if the path is empty, with MT_FAILED if
 * it is a link to nothing. */
mt_status mt_trace_file_resolve(const char *path, char **out);

/* Fails with MT_BAD_TRACE unless there is a regular file, with MT_FAILED if that can't be determined. */
mt_status mt_trace_file_check_reading(const char *path);

/* Fails if no trace may be written there: with MT_BAD_TRACE if the path is not a regular file, with MT_FAILED if the
 * file has several names. The file need not exist. */
mt_status mt_trace_file_check_writing(const char *path);

/* True if the file and its folder can be written, and it has no other name. */
bool mt_trace_file_is_writable(const char *path);

/* True if there is an SQLite database with that name. Every trace is one, even while it is written. A pipe is not
 * read, since it can be read only once. */
bool mt_trace_file_is_database(const char *path);
