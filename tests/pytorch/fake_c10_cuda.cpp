/* PyTorch's caching allocator as far as its watcher meets it: the allocator under PyTorch's symbol name, with the
 * virtual functions of the headers in torch/include; entries of its trace; reports through libc10.so. Memory is
 * addresses alone: segments of 2 MiB, from which blocks of 512 bytes are cut and never used again. */
#include "torch/include/c10/cuda/CUDACachingAllocator.h"

#include <map>
#include <mutex>
#include <thread>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace c10
{

bool Allocator::is_simple(const void *) const
{
    return true;
}
DeviceAllocator::DeviceAllocator() = default;
DeviceAllocator::~DeviceAllocator() = default;

} // namespace c10

using namespace c10;
using namespace c10::cuda::CUDACachingAllocator;

namespace
{

constexpr size_t SEGMENT_BYTES = size_t{2} << 20, ROUND_BYTES = 512, CARD_BYTES = size_t{1} << 30;

class Fake : public CUDAAllocator
{
  public:
    struct counts {
        size_t next = 0, end = 0, reserved = 0, allocated = 0;
    };
    std::vector<AllocatorTraceTracker> trackers;
    std::map<size_t, size_t> blocks;
    std::map<DeviceIndex, counts> cards;
    std::recursive_mutex mutex;
    const char *called = "native";
    bool lies = false;          /* about its totals */
    bool is_expandable = false; /* a card's segments follow each other, and are mapped */

    void trace(TraceEntry::Action action, DeviceIndex device, size_t address, size_t bytes, void *stream)
    {
        const TraceEntry entry(action, device, address, bytes, stream);
        for (const auto &tracker : trackers)
            tracker(entry);
    }
    void report(size_t address, int64_t bytes, DeviceIndex device)
    {
        reportMemoryUsageToProfiler(reinterpret_cast<void *>(address), bytes, cards[device].allocated + lies,
                                    cards[device].reserved, Device{1, device});
    }
    void grow(counts &card, size_t bytes, DeviceIndex device, void *stream)
    {
        const size_t segment = (bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES * SEGMENT_BYTES;
        static size_t next = size_t{1} << 40;
        const size_t begin = next;
        card.next = is_expandable && card.end > 0 ? card.next : begin;
        card.end = next += segment;
        card.reserved += segment;
        trace(is_expandable ? TraceEntry::SEGMENT_MAP : TraceEntry::SEGMENT_ALLOC, device, begin, segment, stream);
    }
    size_t take(size_t bytes, DeviceIndex device, void *stream)
    {
        std::lock_guard<std::recursive_mutex> lock(mutex);
        const size_t rounded = (bytes + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES;
        counts &card = cards[device];
        if (card.reserved + rounded > CARD_BYTES) {
            trace(TraceEntry::OOM, device, CARD_BYTES - card.reserved, bytes, stream);
            return 0;
        }
        if (card.next + rounded > card.end)
            grow(card, rounded, device, stream);
        const size_t address = card.next;
        card.next += rounded;
        card.allocated += rounded;
        blocks[address] = rounded;
        trace(TraceEntry::ALLOC, device, address, bytes, stream);
        report(address, static_cast<int64_t>(rounded), device);
        return address;
    }
    void give(size_t address, DeviceIndex device)
    {
        std::lock_guard<std::recursive_mutex> lock(mutex);
        const size_t bytes = blocks[address];
        blocks.erase(address);
        cards[device].allocated -= bytes;
        trace(TraceEntry::FREE_REQUESTED, device, address, bytes, nullptr);
        trace(TraceEntry::FREE_COMPLETED, device, address, bytes, nullptr);
        report(address, -static_cast<int64_t>(bytes), device);
    }

    void *allocate(size_t) override
    {
        return nullptr;
    }
    bool initialized() override
    {
        return true;
    }
    void emptyCache(MempoolId_t) override
    {
    }
    void *raw_alloc(size_t) override
    {
        return nullptr;
    }
    using CUDAAllocator::recordStream;
    void recordStream(const void *, CUDAStream) override
    {
    }
    void beginAllocateToPool(DeviceIndex, MempoolId_t, std::function<bool(void *)>) override
    {
    }
    void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override
    {
        trackers.push_back(std::move(tracker));
    }
    std::string name() override
    {
        return called;
    }
};

Fake fake;

} // namespace

std::atomic<CUDAAllocator *> c10::cuda::CUDACachingAllocator::allocator{&fake};

EXPORTED uint64_t fake_cuda_take(uint64_t bytes, int device, void *stream)
{
    return fake.take(bytes, static_cast<DeviceIndex>(device), stream);
}
/* Does the same in a thread that runs no Python, as autograd's do. */
EXPORTED uint64_t fake_cuda_take_elsewhere(uint64_t bytes, int device)
{
    uint64_t address = 0;
    std::thread([&] { address = fake_cuda_take(bytes, device, nullptr); }).join();
    return address;
}
EXPORTED void fake_cuda_give(uint64_t address, int device)
{
    fake.give(address, static_cast<DeviceIndex>(device));
}
EXPORTED uint64_t fake_cuda_allocated(int device)
{
    return fake.cards[static_cast<DeviceIndex>(device)].allocated;
}
EXPORTED uint64_t fake_cuda_reserved(int device)
{
    return fake.cards[static_cast<DeviceIndex>(device)].reserved;
}
EXPORTED int fake_cuda_trackers()
{
    return static_cast<int>(fake.trackers.size());
}
EXPORTED void fake_cuda_lie(int lies)
{
    fake.lies = lies != 0;
}
EXPORTED void fake_cuda_expand(int expands)
{
    fake.is_expandable = expands != 0;
}
EXPORTED void fake_cuda_call(const char *name)
{
    fake.called = name;
}
