/* Private pools, as CUDA graphs and torch.cuda.MemPool have them: memory that blocks of other pools never get. A pool is a pair of
 * numbers, (0, 0) that of all other memory.
 *
 * To the trace, what a private pool has of a stream is a stream of its own, since their blocks share no segment; a setting of the
 * run says which:
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

/* What a pool has of a stream; of a private one, with a setting that says so. */
struct mt_torch_stream {
    uint64_t handle; /* PyTorch's */
    uint32_t pool;
    char name[32], words[64]; /* "stream 3", "private pool (1, 0)"; "": of no private pool */
};

/* Snapshots of programs have a few. */
enum { MT_TORCH_MOST_POOLS = 256, MT_TORCH_MOST_STREAMS = 1024 };

/* Private pools, and the streams that they make. All zero: none. Invariant: there are no streams unless there are pools. */
struct mt_torch_pools {
    struct mt_torch_pool *pools;
    uint32_t pool_count;
    struct mt_torch_stream *streams;
    uint32_t stream_count;
};

void mt_torch_pools_release(struct mt_torch_pools *pools);

/* The number of a pool that an entry does not tell. */
#define MT_TORCH_POOL_UNSAID UINT32_MAX

/* Returns the number of a pool by its pair, which is a value: 0 for (0, 0), and from 1 on as they come;
 * MT_TORCH_POOL_UNSAID if it is no pair. There can be MT_TORCH_MOST_POOLS; what is beyond is no pool. */
uint32_t mt_torch_pools_find(struct mt_torch_pools *pools, const struct mt_value *pair);

/* Returns the number of what a pool has of a stream, from 0 on as they come. */
uint64_t mt_torch_pools_stream(struct mt_torch_pools *pools, uint64_t handle, uint32_t pool);
