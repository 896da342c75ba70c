/* The allocator whose trace is watched. */
#pragma once
#include "../core/CachingDeviceAllocator.h"

#include <atomic>

namespace c10::cuda::CUDACachingAllocator
{

using AllocatorTraceTracker = std::function<void(const TraceEntry &)>;

struct CUDAStream {
    int id;
};

class C10_API CUDAAllocator : public DeviceAllocator
{
  public:
    virtual void *raw_alloc(size_t nbytes) = 0;
    virtual void recordStream(const void *ptr, CUDAStream stream) = 0;
    void recordStream(const void *ptr, c10::Stream stream) override
    {
        recordStream(ptr, CUDAStream{stream.id});
    }
    virtual void beginAllocateToPool(DeviceIndex device, MempoolId_t mempool_id,
                                     std::function<bool(void *)> filter) = 0;
    virtual void markCaptureBegin(DeviceIndex /*device*/)
    {
    }
    virtual std::string metadata()
    {
        return "virtual";
    }
    virtual void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) = 0;
    virtual std::string name() = 0;
    std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override
    {
        return {1, static_cast<size_t>(device)};
    }
};

C10_API extern std::atomic<CUDAAllocator *> allocator;

} // namespace c10::cuda::CUDACachingAllocator
