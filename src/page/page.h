/* The timeline page: one HTML file with the program that draws it and the data of one run or two.
 *
 *   trace ──▶ page_run: tables ──▶ page_press: parts, on every core ──▶ page_chunk ─┐
 *                   │                                                               ├─▶ in the shell (viewer/)
 *                   └──────────▶ page_description: JSON ──▶ page_chunk, number 0 ────┘
 *
 * docs/page.md is the format. */
#ifndef MT_PAGE_PAGE_H
#define MT_PAGE_PAGE_H

#include "page/page_chunk.h"
#include "trace/query/trace.h"

/* A run that is shown. */
struct mt_page_source {
    struct mt_trace *trace;
    const struct mt_run *run;
    const char *path; /* of the trace's file as it was given: for commands to copy, and to open it once more */
};

enum { MT_PAGE_MOST_RUNS = 2 };

/* What a page is made of. Texts are borrowed. */
struct mt_page_plan {
    const char *program; /* "memtrace 0.1.0" */
    struct mt_page_source sources[MT_PAGE_MOST_RUNS];
    size_t source_count; /* 1, or 2: the second is compared with the first */
};

/* Writes the page. The runs are read whole: about 200 bytes of memory an allocation. */
mt_status mt_page_write(const struct mt_page_plan *plan, const struct mt_page_output *out);

#endif
