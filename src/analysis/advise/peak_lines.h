/* The lines of the program's own code that asked for most of what is live at the peak of allocated bytes.
 *
 * Threads: that of the trace. */
#ifndef MT_ANALYSIS_PEAK_LINES_H
#define MT_ANALYSIS_PEAK_LINES_H

#include "analysis/run_question.h"
#include "trace/query/trace.h"

enum { MT_MOST_PEAK_LINES = 5 };

/* A line, and what it asked for. Texts are the trace's. */
struct mt_peak_line {
    const char *line; /* "train.py:29" */
    const char *span; /* of its largest block; "": outside of any module */
    uint64_t bytes;   /* requested */
    uint64_t blocks;
};

/* Invariant: items are ordered by bytes, most first. Owns no memory. */
struct mt_peak_lines {
    struct mt_peak_line items[MT_MOST_PEAK_LINES];
    size_t count; /* 0: the run recorded no call stacks */
};

/* Adds up the largest blocks, which are nearly all bytes, by line. */
mt_status mt_peak_lines_find(const struct mt_question *question, struct mt_peak_lines *out);

#endif
