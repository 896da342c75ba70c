/* The connection to PyTorch's own allocator. Its trace tracker is attached through the table of virtual functions, and
 * its reports to the profiler pass through here.
 *
 * Uses no PyTorch headers, so that one build of this library works with every PyTorch. Offsets of functions and fields
 * come from the headers that PyTorch installs (python/memtrace/recording/abi.py). They are checked before use:
 * functions must be in PyTorch's library, and one of them must return the allocator's name. */
#include "base/status.h"
#include "producers/torch/torch_watch.h"

#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <functional>

namespace
{

constexpr const char *LIBRARY = "libc10_cuda.so";
constexpr const char *ALLOCATOR = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";
constexpr const char *REPORT = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";

struct trace_entry; /* PyTorch's */

/* c10::Device */
struct device {
    int8_t type, index;
};

using tracker = std::function<void(const trace_entry &)>;
using report_function = void (*)(void *address, int64_t bytes, size_t allocated, size_t reserved, device card);

/* A C++ string, in the current or the older layout. Both begin with the address of the characters. It is returned in
 * memory. */
struct text {
    const char *characters;
    uint64_t rest[7];
};

report_function original_report;
void *const *allocator; /* of PyTorch: std::atomic<CUDAAllocator *> */
bool is_attached;       /* for as long as the process lives */

/* Records a report, then passes it on to PyTorch's own function. */
void on_report(void *address, int64_t bytes, size_t allocated, size_t reserved, device card)
{
    mt_torch_watch_report(card.index, reinterpret_cast<uintptr_t>(address), bytes, allocated, reserved);
    original_report(address, bytes, allocated, reserved, card);
}

template <typename T> T field(const trace_entry &entry, uint32_t offset)
{
    T value;
    std::memcpy(&value, reinterpret_cast<const char *>(&entry) + offset, sizeof value);
    return value;
}

void on_entry(const trace_entry &entry)
{
    const memtrace_torch_abi &abi = *mt_torch_watch_abi();
    mt_torch_entry read = {field<int32_t>(entry, abi.action_offset),
                           field<int8_t>(entry, abi.device_offset),
                           field<uint64_t>(entry, abi.address_offset),
                           field<uint64_t>(entry, abi.bytes_offset),
                           field<uint64_t>(entry, abi.stream_offset),
                           0,
                           0};
    if (abi.pool_offset != 0) {
        read.first = field<uint64_t>(entry, abi.pool_offset);
        read.second = field<uint64_t>(entry, abi.pool_offset + sizeof read.first);
    }
    mt_torch_watch_entry(&read);
}

/* True if the address points to code in the allocator's library. */
bool is_of_pytorch(const void *address)
{
    Dl_info function, library;
    return dladdr(address, &function) != 0 && dladdr(allocator, &library) != 0 &&
           function.dli_fbase == library.dli_fbase;
}

/* Returns a virtual function of the object; nullptr if it is not PyTorch's. */
void *virtual_function(void *object, uint32_t slot)
{
    void *const *table = *static_cast<void *const *const *>(object);
    return is_of_pytorch(table) && is_of_pytorch(table[slot]) ? table[slot] : nullptr;
}

/* True if the object says that it is PyTorch's own allocator. */
bool is_native(void *object)
{
    auto name = reinterpret_cast<text (*)(void *)>(virtual_function(object, mt_torch_watch_abi()->name_slot));
    return name != nullptr && std::strcmp(name(object).characters, "native") == 0;
}

void *find_allocator()
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    void *found = library != nullptr ? dlsym(library, ALLOCATOR) : nullptr;
    if (library != nullptr)
        dlclose(library);
    return found;
}

} // namespace

extern "C" {

int memtrace_torch_watch(const struct memtrace_torch_abi *abi, const char *trace_path, const char *name)
{
    allocator = static_cast<void *const *>(find_allocator());
    if (allocator == nullptr)
        return mt_fail(MT_NO_DEVICE, "this PyTorch has no CUDA: %s is not loaded, or has no allocator", LIBRARY);
    if (original_report == nullptr)
        MT_TRY(static_cast<mt_status>(mt_torch_call_replace(LIBRARY, "libc10.so", REPORT,
                                                            reinterpret_cast<void *>(on_report),
                                                            reinterpret_cast<void **>(&original_report))));
    return mt_torch_watch_begin(abi, trace_path, name);
}

int memtrace_torch_attach(void)
{
    void *object = allocator != nullptr ? *allocator : nullptr;
    if (is_attached)
        return MT_OK;
    if (object == nullptr || !is_native(object))
        return mt_fail(MT_NO_DEVICE, "PyTorch's allocator is not its own, or has another interface than its headers");
    auto attach =
        reinterpret_cast<void (*)(void *, tracker)>(virtual_function(object, mt_torch_watch_abi()->attach_slot));
    if (attach == nullptr)
        return mt_fail(MT_NO_DEVICE, "PyTorch's allocator has another interface than its headers");
    try {
        attach(object, tracker(on_entry));
        is_attached = true;
    } catch (const std::exception &error) {
        return mt_fail(MT_NO_DEVICE, "PyTorch's allocator refuses to be watched: %s", error.what());
    }
    return MT_OK;
}
}
