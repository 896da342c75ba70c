/* The ranks of one job: which are equal, and how the others differ.
 *
 * Ownership: borrows the ranks; release in any case. Threads: one at a time. */
#pragma once

#include "trace/query/ranks.h"

/* How much a category of a rank exceeds the median rank's, at the peaks of allocated bytes. */
struct mt_rank_excess {
    const char *category;
    int64_t bytes;
};

/* A rank, represented by its newest file. Invariant: the excesses sum to above_median_bytes, and are ordered by
 * magnitude, largest first; none is 0. */
struct mt_job_rank {
    const struct mt_rank *of;
    int64_t alike;              /* number of its group, from 1: ranks with the same peaks, of the same categories */
    int64_t above_median_bytes; /* of the peak of allocated bytes */
    struct mt_rank_excess *excesses;
    size_t excess_count;
};

/* Memory of a rank on another card than its own, in a separate trace. */
struct mt_rank_stray {
    const struct mt_rank *of;
    int64_t card; /* the number of the card on the rank's host */
};

/* Equal ranks. Their reserved bytes may differ. */
struct mt_rank_group {
    struct mt_job_rank **ranks; /* by rank; `count` of them, at least one */
    size_t count;
    uint64_t reserved_bytes; /* the maximum */
};

/* Invariants: `ranks` are ordered by peak, highest first, then by rank; groups are ordered by their first rank. */
struct mt_rank_job {
    const char *job;
    int64_t world_size; /* -1: unknown */
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

/* Compares the ranks of a job. NULL: the job whose rank began last. Fails with MT_USAGE if there is none. */
mt_status mt_rank_job_open(const struct mt_ranks *ranks, const char *job, struct mt_rank_job *out);
void mt_rank_job_release(struct mt_rank_job *job);

/* Finds a rank by its number. Fails with MT_USAGE if it has no trace. */
mt_status mt_rank_job_find(const struct mt_rank_job *job, int64_t rank, const struct mt_job_rank **out);

/* True if the peaks of at least the last three steps of a rank increase, which indicates a leak. */
bool mt_rank_is_growing(const struct mt_rank *rank);
