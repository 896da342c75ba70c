/* Captures of CUDA graphs, and the private pools that serve allocations during a capture.
 *
 *   capture_begin ──▶ capture of the current stream ──event, wait──▶ other streams join it
 *                └──▶ route: allocations of the capture's streams ──▶ pool
 *   use_mem_pool ───▶ route: allocations of this thread ──▶ pool
 *
 * On a card, nothing runs during a capture, and a replay writes the results of the captured kernels. So values written
 * during a capture are unknown from then on, and a replay changes nothing.
 *
 * Threads: any. */
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>

namespace mt_dry
{

/* Returns the number of the capture that a stream is part of; 0: none. */
uint64_t capture_of(c10::Stream stream);

/* Makes a stream part of a capture, if the capture has not ended. */
void join_capture(uint64_t capture, c10::Stream stream);

/* True if the current stream of the current device is part of a capture. */
bool is_capturing();

/* Fails like CUDA's calls that wait for a stream, if it is part of a capture. That capture is then broken. */
void refuse_if_capturing(c10::Stream stream);
void refuse_if_capturing();

/* Fails like CUDA's calls that wait for a whole device, if any of its streams is part of a capture. */
void refuse_if_any_captures(c10::DeviceIndex device);

/* Allocates a card generator's state in a graph, a seed and an offset, if the calling operator is part of a capture and
 * draws random numbers. Before PyTorch 2.13, each capture allocates the state when it begins. */
void take_generator_state();

/* Frees the workspaces of matrix products, of all threads (dry_inner.cpp). */
void clear_workspaces();

} // namespace mt_dry
