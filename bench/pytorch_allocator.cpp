/* PyTorch's caching allocator through its C++ entry, measured by the loops that measure ours. pytorch_allocator.py
 * builds this against the torch that Python has, and calls it with the interpreter's lock held, so that recording
 * Python's frames has nothing to wait for. */
#include "bench/alloc_loops.h"

#include <c10/cuda/CUDACachingAllocator.h>

namespace
{

struct Torch {
    void *take(uint64_t bytes)
    {
        return c10::cuda::CUDACachingAllocator::raw_alloc(bytes);
    }

    void give(void *block)
    {
        c10::cuda::CUDACachingAllocator::raw_delete(block);
    }
};

Torch allocator;

} // namespace

extern "C" double torch_pair_ns(uint64_t bytes, int pairs)
{
    return bench::pair_ns(allocator, bytes, pairs);
}

extern "C" double torch_event_ns(const char *path, int warm_up, int times)
{
    return bench::file_event_ns(allocator, path, warm_up, times);
}
