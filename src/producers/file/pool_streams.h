/* The streams of a snapshot with private pools (torch_pools.h), and the pools of events that do not tell theirs.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* Numbers the streams of a snapshot with private pools. An event that tells no pool is of that of the segment which has its address
 * later. Does nothing to a snapshot without private pools. */
void mt_pool_streams_number(struct mt_torch_snapshot *snapshot);
