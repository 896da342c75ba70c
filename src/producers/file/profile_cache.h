/* The memory that PyTorch reserved and no block had, of a trace of torch.profiler: each event of memory says the sum of
 * segments, and none says where they lie. So all that was cached becomes one segment, which grows and shrinks:
 *
 *   reserved = the blocks, each in a segment of its own, + the cache
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* The address of the cache, beyond those of blocks. */
#define MT_PROFILE_CACHE_ADDRESS (UINT64_C(3) << 60)

/* Adds the segment, and events that map and unmap it, which are no entries of the file. Nothing of it where no event says what
 * was reserved. */
void mt_profile_cache_add(struct mt_torch_snapshot *snapshot);
