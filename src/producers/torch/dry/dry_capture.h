/* Captures of CUDA graphs, and the private pools that allocations come from meanwhile.
 *
 *   capture_begin ──▶ capture of the current stream ──event, wait──▶ other streams join it
 *                └──▶ route: allocations of the capture's streams ──▶ pool
 *   use_mem_pool ───▶ route: allocations of this thread ──▶ pool
 *
 * Nothing runs during a capture on a card, and a replay writes what the captured kernels wrote. So what is written meanwhile is not
 * known from then on, and a replay changes nothing.
 *
 * Threads: any. */
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>

namespace mt_dry
{

/* Returns the number of the capture that a stream is part of; 0: none. */
uint64_t capture_of(c10::Stream stream);

/* Makes a stream part of a capture, if that is still under way. */
void join_capture(uint64_t capture, c10::Stream stream);

/* True if the current stream of the current device is part of a capture. */
bool is_capturing();

/* Fails as CUDA does for calls that wait for a stream, if it is part of a capture, which can't end well then. */
void refuse_if_capturing(c10::Stream stream);
void refuse_if_capturing();

/* Fails as CUDA does for calls that wait for a whole device, if any stream of it is part of a capture. */
void refuse_if_any_captures(c10::DeviceIndex device);

/* Takes what a card's generator has in a graph, a seed and an offset, if the calling operator is part of a capture and draws random
 * numbers. Before PyTorch 2.13, each capture takes them when it begins. */
void take_generator_state();

/* Takes back the workspaces of matrix products, of all threads (dry_inner.cpp). */
void clear_workspaces();

} // namespace mt_dry
