#include "producers/torch/dry/dry_pinned.h"

#include "producers/torch/dry/dry_library.h"

#include <c10/core/CPUAllocator.h>

#include <map>
#include <mutex>

namespace mt_dry
{

namespace
{

/* The first address and the bytes of each pinned range. They do not overlap. */
std::mutex pinned_lock;
std::map<uintptr_t, size_t> ranges;

void add_pinned(const void *data, size_t bytes)
{
    const std::lock_guard guard(pinned_lock);
    ranges[reinterpret_cast<uintptr_t>(data)] = bytes;
}

void remove(const void *data)
{
    const std::lock_guard guard(pinned_lock);
    ranges.erase(reinterpret_cast<uintptr_t>(data));
}

/* Frees memory. `context` is the address, as for the CPU's allocator. */
void free_pinned(void *context)
{
    remove(context);
    c10::GetDefaultCPUAllocator()->raw_deallocate(context);
}

class host_allocator final : public c10::Allocator
{
  public:
    c10::DataPtr allocate(size_t bytes) override
    {
        void *data = bytes > 0 ? c10::GetDefaultCPUAllocator()->raw_allocate(bytes) : nullptr;
        if (data == nullptr)
            return {nullptr, c10::Device(c10::DeviceType::CPU)};
        add_pinned(data, bytes);
        return {data, data, &free_pinned, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return &free_pinned;
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        default_copy_data(to, from, bytes);
    }
};

} // namespace

c10::Allocator *pinned_allocator()
{
    static host_allocator allocator;
    return &allocator;
}

bool is_pinned(const void *data)
{
    const auto address = reinterpret_cast<uintptr_t>(data);
    const std::lock_guard guard(pinned_lock);
    const auto after = ranges.upper_bound(address);
    if (after == ranges.begin())
        return false;
    const auto &[begin, bytes] = *std::prev(after);
    return address - begin < bytes;
}

} // namespace mt_dry

void memtrace_dry_pin(const void *data, uint64_t bytes)
{
    mt_dry::add_pinned(data, bytes);
}

void memtrace_dry_unpin(const void *data)
{
    mt_dry::remove(data);
}
