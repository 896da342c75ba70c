/* The ranks of a job on the timeline page: the chunk that has a small chart of each, and the choice of those whose data
 * is on the page. */
#pragma once

#include "analysis/ranks/rank_job.h"
#include "page/page_chunk.h"
#include "trace/query/curve.h"

/* The ranks of a job. Texts and the job are borrowed. */
struct mt_page_job {
    const struct mt_rank_job *job;
    const char *place;  /* the folder of the traces, or the trace of all, as the user gave it */
    int64_t shown;      /* the rank that the page opens with: one of the job's */
    mt_curve_axis axis; /* of all charts: time, but of dry runs events */
};

/* A page has whole runs of its ranks up to so many events, some 10 MB. */
enum { MT_PAGE_RANK_EVENTS = 2000000 };

/* Each is of the job's rank of the same position. */
struct mt_page_rank {
    struct mt_curve curve;
    int64_t event_count;
    bool is_whole; /* its run is on the page */
};

/* Reads the curves, and chooses the whole runs: the one that is shown, then one of each group of ranks that are alike,
 * the highest peak first, then the others; a run that would be too much is left out. The caller frees *out, an array of
 * job->job->count, also after a failure. Fails as mt_trace_open and mt_trace_curve. */
mt_status mt_page_ranks_read(const struct mt_page_job *job, struct mt_page_rank **out);

/* Writes chunk 0 of the set "ranks-": the ranks in JSON, as docs/page.md has it. MT_FAILED if zlib fails. */
mt_status mt_page_ranks_write(const struct mt_page_output *out, const struct mt_page_job *job,
                              const struct mt_page_rank *ranks);
