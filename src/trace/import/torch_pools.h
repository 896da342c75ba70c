/* Private pools, as CUDA graphs and torch.cuda.MemPool have them: memory that blocks of other pools never get. A pool is a pair of
 * numbers, (0, 0) that of all other memory.
 *
 * To the trace, what a private pool has of a stream is a stream of its own, since their blocks share no segment; a setting of the
 * run says which:
 *
 *   stream 3    private pool (1, 0)
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_TORCH_POOLS_H
#define MT_TRACE_IMPORT_TORCH_POOLS_H

#include "trace/import/torch_snapshot.h"

/* The number of a pool that an entry does not tell. */
enum { MT_TORCH_POOL_UNSAID = UINT32_MAX };

/* Returns the number of a pool by its pair, which is a value: 0 for (0, 0), and from 1 on as they come;
 * MT_TORCH_POOL_UNSAID if it is no pair. A snapshot has MT_TORCH_MOST_POOLS; what is beyond is no pool. */
uint32_t mt_torch_pool_find(struct mt_torch_snapshot *snapshot, const struct mt_value *pair);

/* Numbers the streams of a snapshot with private pools. An event that tells no pool is of that of the segment which has its address
 * later. Does nothing to a snapshot without private pools. */
void mt_torch_pools_number(struct mt_torch_snapshot *snapshot);

#endif
