/* Private pools, which CUDA graphs and torch.cuda.MemPool use: memory that blocks of other pools never get. A pool is a
 * pair of numbers; (0, 0) is the default pool.
 *
 * In the trace, a private pool's part of a stream is a separate stream, since its blocks share no segment with others.
 * A setting of the run names it:
 *
 *   stream 3    private pool (1, 0)
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/value.h"

/* The pair of numbers of a private pool. */
struct mt_torch_pool {
    int64_t first, second;
};

/* A pool's part of a stream; for a private pool, with the setting that names it. */
struct mt_torch_stream {
    uint64_t handle; /* PyTorch's */
    uint32_t pool;
    char name[32], words[64]; /* "stream 3", "private pool (1, 0)"; "" for the default pool */
};

/* Snapshots of programs have a few. */
enum { MT_TORCH_MOST_POOLS = 256, MT_TORCH_MOST_STREAMS = 1024 };

/* Private pools, and their streams. All zero: none. Invariant: there are no streams unless there are pools. */
struct mt_torch_pools {
    struct mt_torch_pool *pools;
    uint32_t pool_count;
    struct mt_torch_stream *streams;
    uint32_t stream_count;
};

void mt_torch_pools_release(struct mt_torch_pools *pools);

/* The pool number of an entry without a pool. */
#define MT_TORCH_POOL_UNSAID UINT32_MAX

/* Returns the number of a pool by its pair, which is a value: 0 for (0, 0), and from 1 on in the order of first use;
 * MT_TORCH_POOL_UNSAID if it is not a pair. Pools beyond MT_TORCH_MOST_POOLS have no number. */
uint32_t mt_torch_pools_find(struct mt_torch_pools *pools, const struct mt_value *pair);

/* Returns the number of a pool's part of a stream, from 0 on in the order of first use. */
uint64_t mt_torch_pools_stream(struct mt_torch_pools *pools, uint64_t handle, uint32_t pool);
