/* What allocators of devices share, and the entry of a trace. */
#pragma once
#include "Allocator.h"

#include <functional>
#include <string>

namespace c10
{

struct Stream {
    int id;
};

struct C10_API DeviceAllocator : public Allocator {
    DeviceAllocator();
    ~DeviceAllocator() override;
    virtual bool initialized() = 0;
    virtual void emptyCache(MempoolId_t mempool_id = {0, 0}) = 0;
    virtual void recordStream(const void *ptr, c10::Stream stream) = 0;
    virtual std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device)
    {
        return {0, static_cast<size_t>(device)};
    }
};

struct GatheredContext {
    virtual ~GatheredContext() = default;
};

struct TraceEntry {
    enum Action {
        ALLOC, // memory is asked for
        FREE_REQUESTED,
        FREE_COMPLETED, // comes later where another stream
                        // still uses the memory
        SEGMENT_ALLOC,
        SEGMENT_FREE,
        SEGMENT_MAP,
        SEGMENT_UNMAP,
        SNAPSHOT,
        OOM
    };
    TraceEntry(Action action, DeviceIndex device, size_t addr, size_t size, void *stream)
        : action_(action), device_(device), addr_(addr), stream_(stream), size_(size)
    {
    }
    Action action_;
    c10::DeviceIndex device_;
    size_t addr_;
    std::shared_ptr<GatheredContext> context_;
    void *stream_{};
    size_t size_;
    MempoolId_t mempool_;
};

} // namespace c10
