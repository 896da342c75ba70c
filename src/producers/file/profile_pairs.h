/* Addresses for a trace of torch.profiler that has none: PyTorch 1.8 wrote only the bytes of each allocation and free.
 *
 * A free ends the youngest live block of its size, or one from before the trace. So the sum of live blocks is right at
 * each moment. Which of several blocks of one size a free ends is a guess.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* Gives each event an address. No two blocks share an address, even at different times. */
void mt_profile_pair(struct mt_torch_snapshot *snapshot);
