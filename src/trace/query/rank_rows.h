/* The ranks of jobs as rows: what their traces tell of each.
 *
 * Threads: one at a time. */
#pragma once

#include "trace/query/trace.h"

/* The kinds of shares in a peak. */
typedef enum mt_rank_key { MT_RANK_ROLE, MT_RANK_CATEGORY, MT_RANK_KEY_COUNT } mt_rank_key;

struct mt_rank_share {
    mt_rank_key key;
    const char *name;
    uint64_t bytes; /* allocated */
};

/* A rank: its newest run in a trace. Shares are those of the peak of allocated bytes, by key, the largest first. */
struct mt_rank {
    const char *file; /* the trace */
    int64_t run;      /* in it */
    int64_t rank, local_rank, world_size;
    const char *host, *job, *name, *state, *device, *started_at; /* as in struct mt_run; "" for NULL */
    int64_t steps;
    uint64_t peak_bytes[MT_MEASURE_COUNT];
    int64_t step; /* of the peak of allocated bytes */
    const char *phase, *span;
    int64_t growing_steps; /* so many of the last steps each went higher than the one before */
    uint64_t growth_bytes; /* by so much in all of them */
    struct mt_rank_share *shares;
    size_t share_count;
};

/* A file that tells of no rank. */
struct mt_rank_problem {
    const char *file, *reason;
};

/* Ordered by job, then rank, then file. */
struct mt_ranks {
    struct mt_rank *items;
    size_t count;
    struct mt_rank_problem *problems;
    size_t problem_count;
    struct mt_interner *texts;
};
