/* The streams of a snapshot with private pools (torch_pools.h), and the pools of events that lack theirs.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* Numbers the streams of a snapshot with private pools. An event without a pool belongs to the pool of the segment that
 * later holds its address. Does nothing to a snapshot without private pools. */
void mt_pool_streams_number(struct mt_torch_snapshot *snapshot);
