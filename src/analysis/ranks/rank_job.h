/* The ranks of one job, side by side: which are alike, and by what the others differ.
 *
 * Ownership: borrows the ranks; release in any case. Threads: one at a time. */
#pragma once

#include "trace/query/ranks.h"

/* By how much a category of a rank is more than the median rank's, at the peaks of allocated bytes. */
struct mt_rank_excess {
    const char *category;
    int64_t bytes;
};

/* A rank, with the files that are not its newest left out. Invariant: the excesses sum to above_median_bytes, and come largest
 * magnitude first; none is 0. */
struct mt_job_rank {
    const struct mt_rank *of;
    int64_t alike;              /* the number of its group, from 1: ranks with the same peaks, of the same categories */
    int64_t above_median_bytes; /* of the peak of allocated bytes */
    struct mt_rank_excess *excesses;
    size_t excess_count;
};

/* Memory that a rank holds on another card than its own, in a trace of its own. */
struct mt_rank_stray {
    const struct mt_rank *of;
    int64_t card; /* the number of the card on the rank's host */
};

/* Ranks that are alike. Their reserved bytes may differ. */
struct mt_rank_group {
    struct mt_job_rank **ranks; /* by rank; count of them, one at least */
    size_t count;
    uint64_t reserved_bytes; /* the most */
};

/* Invariants: `ranks` come with the highest peak first, then by rank, and so do groups by their first rank. */
struct mt_rank_job {
    const char *job;
    int64_t world_size; /* -1: not known */
    struct mt_job_rank *ranks;
    size_t count;
    const struct mt_job_rank *median;
    struct mt_rank_group *groups;
    size_t group_count;
    struct mt_rank_stray *strays; /* by rank */
    size_t stray_count;
    int64_t *missing; /* ranks without a trace, ascending */
    size_t missing_count;
    size_t others; /* ranks of other jobs */
};

/* Compares the ranks of a job; NULL: of the one whose rank began last. Fails with MT_USAGE if there is none. */
mt_status mt_rank_job_open(const struct mt_ranks *ranks, const char *job, struct mt_rank_job *out);
void mt_rank_job_release(struct mt_rank_job *job);

/* Finds a rank by its number. Fails with MT_USAGE if it has no trace. */
mt_status mt_rank_job_find(const struct mt_rank_job *job, int64_t rank, const struct mt_job_rank **out);

/* True if a rank's steps go higher and higher, which hints at a leak: its last three at least. */
bool mt_rank_is_growing(const struct mt_rank *rank);
