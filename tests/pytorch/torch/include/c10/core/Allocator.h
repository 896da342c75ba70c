/* The base of allocators, with what a reader of PyTorch's headers meets: bodies, overloads, functions that are not
 * virtual. */
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#define C10_API __attribute__((visibility("default")))

namespace c10
{

using MempoolId_t = std::pair<unsigned long long, unsigned long long>;
using DeviceIndex = int8_t;

struct Device {
    int8_t type;
    DeviceIndex index;
};

struct C10_API Allocator {
    virtual ~Allocator() = default;
    virtual void *allocate(size_t n) = 0; // virtual in a comment: virtual void nothing();
    void *clone(const void *data, size_t n);
    virtual bool is_simple(const void *pointer) const;
    virtual void *deleter() const
    {
        if (is_simple(nullptr)) {
            return nullptr;
        }
        return nullptr;
    }

  protected:
    void copy(void *to, const void *from, size_t n) const;
};

C10_API void reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, size_t total_allocated, size_t total_reserved,
                                         Device device);

} // namespace c10
