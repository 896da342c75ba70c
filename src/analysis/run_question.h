/* A question: an open trace and a run in it. */
#pragma once

#include "trace/query/trace.h"

/* Owns nothing: the caller that opens the trace closes it. */
struct mt_question {
    struct mt_trace *trace;
    const struct mt_run *run;
    char *file; /* the trace's file, if named together with the run; otherwise NULL */
};
