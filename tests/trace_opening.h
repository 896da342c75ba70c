/* Opening a trace with its newest run. */
#pragma once

#include "trace/query/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Returns the trace, and its newest run in `out`. The caller closes the trace. */
static inline struct mt_trace *open_newest(const char *file, const struct mt_run **out)
{
    struct mt_trace *trace;
    if (mt_trace_open(file, &trace) != MT_OK || mt_trace_find_run(trace, NULL, out) != MT_OK)
        fail_msg("%s: %s", file, mt_last_error());
    return trace;
}
