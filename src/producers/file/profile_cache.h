/* The cached memory in a trace of torch.profiler, which PyTorch reserved and no block used. Each memory event reports
 * the sum of segments, but not their addresses. So all cached memory becomes one segment, which grows and shrinks:
 *
 *   reserved = the blocks, each in a segment of its own, + the cache
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* The address of the cache, above the addresses of blocks. */
#define MT_PROFILE_CACHE_ADDRESS (UINT64_C(3) << 60)

/* Adds the segment, and events that map and unmap it, which are not entries of the file. Adds nothing if no event
 * reports the reserved memory. */
void mt_profile_cache_add(struct mt_torch_snapshot *snapshot);
