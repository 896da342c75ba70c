/* Pinned memory: ordinary memory of the host, recorded so that programs see which tensors they pinned.
 *
 * Threads: any. */
#pragma once

#include <c10/core/Allocator.h>

namespace mt_dry
{

/* Returns the allocator of pinned memory. */
c10::Allocator *pinned_allocator();

/* True if `data` points into memory that is pinned. */
bool is_pinned(const void *data);

} // namespace mt_dry
