/* The timeline page: one HTML file with the program that draws it and the data of one run, two that are compared, or
 * the ranks of a job.
 *
 *   trace ──▶ page_run: tables ──▶ page_chunk: parts, on every core ─┐
 *                   │                                                ├─▶ in the shell (viewer/)
 *                   └──▶ page: description in JSON, chunk number 0 ──┤
 *                                answers in JSON, a set of their own ─┘
 *
 * docs/page.md is the format. */
#pragma once

#include "page/page_chunk.h"
#include "page/page_ranks.h"
#include "trace/query/trace.h"

/* A run on the page. */
struct mt_page_source {
    struct mt_trace *trace;
    const struct mt_run *run;
    const char *path; /* of the trace's file as the user gave it: for commands to copy, and to open it a second time */
};

enum { MT_PAGE_MOST_RUNS = 2 };

/* The contents of a page. Texts are borrowed. */
struct mt_page_plan {
    const char *program; /* "memtrace 0.2.0" */
    struct mt_page_source sources[MT_PAGE_MOST_RUNS];
    size_t source_count;           /* 1, or 2: the second is compared with the first */
    const struct mt_page_job *job; /* that the run is a rank of; NULL: it is shown alone. Needs a source_count of 1 */
    const char *answers;           /* JSON: what other commands found about the runs (docs/page.md); NULL: nothing */
};

/* Writes the page. Reads a run as a whole, which takes about 200 bytes of memory an allocation. MT_BAD_TRACE if a
 * run does not fit the format; MT_FAILED if zlib fails; and as the queries of the trace. Uses threads of its own. */
mt_status mt_page_write(const struct mt_page_plan *plan, const struct mt_page_output *out);
