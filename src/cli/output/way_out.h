/* What the command line can do about a failure. The libraries tell what is wrong, for whichever program calls them, and
 * know no options; here their text gets what these can do about it. */
#ifndef MT_CLI_WAY_OUT_H
#define MT_CLI_WAY_OUT_H

#include "base/status.h"
#include "trace/query/trace.h"

/* Adds "; WAY OUT" to the recorded text, and returns `status`. */
mt_status mt_fail_way_out(mt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The status of opening a trace to write. Where it could not be made the text gets where else it could be: `untraced` is
 * how the command does without one, NULL if it can't. */
mt_status mt_way_out_of_writing(mt_status status, const char *untraced);

/* mt_trace_open, which tells how a trace that is not there is made. */
mt_status mt_trace_open_to_ask(const char *path, struct mt_trace **out);

#endif
