/* A question: an opened trace, and the run in it that is asked about. */
#pragma once

#include "trace/query/trace.h"

/* Owns nothing by itself: who opens the trace closes it. */
struct mt_question {
    struct mt_trace *trace;
    const struct mt_run *run;
    char *file; /* the trace's file, if it was named together with the run; otherwise NULL */
};
