/* The device: its allocator, the guard that keeps the current device and stream, and the hooks by which PyTorch asks for
 * CUDA. */
#include "torch/dry/dry_device.h"

#include "torch/memtrace_torch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <atomic>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <utility>

#if TORCH_VERSION_MINOR < 8
#define MT_NOEXCEPT_BEFORE_2_8 noexcept
#else
#define MT_NOEXCEPT_BEFORE_2_8
#endif

namespace mt_dry
{

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

namespace
{

constexpr int OUT_OF_MEMORY = 5; /* MT_OUT_OF_MEMORY */
constexpr int MOST_CARDS = 64;
constexpr c10::StreamId FIRST_STREAM = 32; /* 0 and 1 are the default stream's numbers */

std::atomic<int> card_count{1};
std::atomic<c10::StreamId> next_stream{FIRST_STREAM};
thread_local DeviceIndex device_now = 0;
thread_local struct memtrace_torch_shape next_shape; /* of the next block */
thread_local bool has_next_shape;
thread_local c10::StreamId streams_now[MOST_CARDS];

/* ---- blocks ---- */

void give(void *context)
{
    auto *owned = static_cast<block *>(context);
    memtrace_torch_free(reinterpret_cast<void *>(owned->address), static_cast<ssize_t>(owned->bytes), owned->device,
                        nullptr);
    delete owned;
}

/* Returns a size as c10::CachingAllocator::format_size writes it. */
std::string in_words(uint64_t bytes)
{
    std::ostringstream words;
    words << std::fixed << std::setprecision(2);
    if (bytes <= 1024)
        words << bytes << " bytes";
    else if (bytes <= 1u << 20)
        words << static_cast<double>(bytes) / 1024 << " KiB";
    else if (bytes <= 1u << 30)
        words << static_cast<double>(bytes) / (1u << 20) << " MiB";
    else
        words << static_cast<double>(bytes) / (1u << 30) << " GiB";
    return words.str();
}

/* Returns PyTorch's words for a refused request, which programs look for. */
std::string refusal(size_t bytes)
{
    struct memtrace_torch_figures figures;
    struct memtrace_torch_description card;
    std::ostringstream words;
    memtrace_torch_statistics(device_now, MEMTRACE_TORCH_ALL, &figures);
    memtrace_torch_describe(nullptr, &card);
    const uint64_t used = figures.reserved + card.context_bytes;
    words << "CUDA out of memory. Tried to allocate " << in_words(bytes) << ". GPU " << static_cast<int>(device_now)
          << " has a total capacity of " << in_words(card.total_bytes) << " of which "
          << in_words(card.total_bytes - used) << " is free. Including non-PyTorch memory, this process has "
          << in_words(used) << " memory in use. ";
    if (figures.capacity + card.context_bytes < card.total_bytes)
        words << in_words(figures.capacity) << " allowed; ";
    words << "Of the allocated memory " << in_words(figures.allocated) << " is allocated by PyTorch, and "
          << in_words(figures.reserved - figures.allocated)
          << " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
             "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
             "Management  "
             "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
    return words.str();
}

/* Takes a block for the current stream. Throws c10::OutOfMemoryError as PyTorch's allocator does. */
c10::DataPtr take(size_t bytes)
{
    const Device device(DeviceType::CUDA, device_now);
    uint64_t address = 0;
    const bool has_shape = std::exchange(has_next_shape, false);
    if (bytes == 0)
        return {nullptr, nullptr, &c10::detail::deleteNothing, device};
    const int status =
        memtrace_torch_take(static_cast<int64_t>(bytes), device_now, static_cast<uint64_t>(streams_now[device_now]),
                            has_shape ? &next_shape : nullptr, &address);
    TORCH_CHECK_WITH(OutOfMemoryError, status != OUT_OF_MEMORY, refusal(bytes));
    TORCH_CHECK(status == 0, memtrace_torch_last_error());
    auto *made = new block{address, bytes, device_now, bytes <= MOST_VALUE_BYTES, nullptr};
    return {reinterpret_cast<void *>(address), made, &give, device};
}

class card_allocator final : public c10::Allocator
{
  public:
    c10::DataPtr allocate(size_t bytes) override
    {
        return take(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return nullptr;
    }
    void copy_data(void *, const void *, size_t) const override
    {
    }
};

card_allocator the_allocator;

/* ---- the guard ---- */

Stream stream_of(Device device, c10::StreamId id)
{
    const DeviceIndex index = device.index() < 0 ? device_now : device.index();
    return Stream(Stream::UNSAFE, Device(DeviceType::CUDA, index), id);
}

/* Events are done as soon as they are recorded, since nothing runs. */
class guard final : public c10::impl::DeviceGuardImplInterface
{
  public:
    DeviceType type() const override
    {
        return DeviceType::CUDA;
    }
    Device exchangeDevice(Device device) const override
    {
        const Device before(DeviceType::CUDA, device_now);
        setDevice(device);
        return before;
    }
    Device getDevice() const override
    {
        return Device(DeviceType::CUDA, device_now);
    }
    void setDevice(Device device) const override
    {
        TORCH_CHECK(device.index() < card_count, "CUDA error: invalid device ordinal");
        uncheckedSetDevice(device);
    }
    void uncheckedSetDevice(Device device) const noexcept override
    {
        if (device.index() >= 0 && device.index() < MOST_CARDS)
            device_now = device.index();
    }
    Stream getStream(Device device) const MT_NOEXCEPT_BEFORE_2_8 override
    {
        return stream_of(device, streams_now[device.index() < 0 ? device_now : device.index()]);
    }
    Stream getDefaultStream(Device device) const override
    {
        return stream_of(device, 0);
    }
    Stream getStreamFromGlobalPool(Device device, bool) const override
    {
        return stream_of(device, next_stream++);
    }
    Stream getNewStream(Device device, int) const override
    {
        return stream_of(device, next_stream++);
    }
    Stream exchangeStream(Stream stream) const MT_NOEXCEPT_BEFORE_2_8 override
    {
        const Stream before = getStream(stream.device());
        streams_now[stream.device_index()] = stream.id();
        return before;
    }
    DeviceIndex deviceCount() const noexcept override
    {
        return static_cast<DeviceIndex>(card_count.load());
    }
    void record(void **event, const Stream &, const DeviceIndex, const c10::EventFlag) const override
    {
        *event = this_event();
    }
    void block(void *, const Stream &) const override
    {
    }
    bool queryEvent(void *) const override
    {
        return true;
    }
    void destroyEvent(void *, const DeviceIndex) const noexcept override
    {
    }
    bool queryStream(const Stream &) const override
    {
        return true;
    }
    void synchronizeStream(const Stream &) const override
    {
    }
    void synchronizeEvent(void *) const override
    {
    }
    void synchronizeDevice(const DeviceIndex) const override
    {
    }
    double elapsedTime(void *, void *, const DeviceIndex) const override
    {
        return 0;
    }
    void recordDataPtrOnStream(const c10::DataPtr &data, const Stream &stream) const override
    {
        memtrace_torch_record_stream(data.get(), reinterpret_cast<void *>(stream.id()));
    }

  private:
    static void *this_event()
    {
        static char event;
        return &event;
    }
};

} // namespace

char *block::host()
{
    TORCH_INTERNAL_ASSERT(has_values());
    if (values == nullptr)
        values.reset(new char[bytes]());
    return values.get();
}

c10::Allocator *allocator()
{
    return &the_allocator;
}

void describe_next(c10::ScalarType type, c10::IntArrayRef sizes)
{
    has_next_shape = sizes.size() <= MEMTRACE_TORCH_DIMS;
    if (!has_next_shape)
        return;
    next_shape.dtype = static_cast<int32_t>(type);
    next_shape.dims = static_cast<int32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), next_shape.sizes);
}

block *block_of(const c10::StorageImpl *storage)
{
    const c10::DataPtr &data = storage->data_ptr();
    return data.get_deleter() == &give ? static_cast<block *>(data.get_context()) : nullptr;
}

void resize(c10::StorageImpl *storage, size_t bytes)
{
    c10::DataPtr fresh = take(bytes);
    block *before = block_of(storage);
    auto *after = static_cast<block *>(fresh.get_context());
    if (after != nullptr && before != nullptr) {
        after->is_known = after->is_known && before->is_known;
        if (after->has_values() && before->has_values())
            std::memcpy(after->host(), before->host(), std::min(before->bytes, after->bytes));
    }
    storage->set_data_ptr_noswap(std::move(fresh));
    storage->set_nbytes(bytes);
}

DeviceIndex current_device()
{
    return device_now;
}

Stream current_stream(DeviceIndex device)
{
    return stream_of(Device(DeviceType::CUDA, device), streams_now[device]);
}

} // namespace mt_dry

/* ---- hooks; PyTorch finds the class by its name in a registry ---- */

namespace at
{

class CUDAHooks final : public CUDAHooksInterface
{
  public:
    explicit CUDAHooks(CUDAHooksArgs)
    {
    }
    bool isBuilt() const override
    {
        return true;
    }
    bool isAvailable() const override
    {
        return true;
    }
    void init() const override
    {
    }
    bool hasCUDA() const override
    {
        return true;
    }
    bool hasCuDNN() const override
    {
        return true;
    }
    bool hasCuBLASLt() const override
    {
        return true;
    }
    bool compiledWithCuDNN() const override
    {
        return true;
    }
    bool supportsDilatedConvolutionWithCuDNN() const override
    {
        return true;
    }
    bool supportsDepthwiseConvolutionWithCuDNN() const override
    {
        return true;
    }
    bool supportsBFloat16ConvolutionWithCuDNNv8() const override
    {
        return true;
    }
    long versionCuDNN() const override
    {
        return 91900;
    }
    /* Without override, since PyTorch has these since 2.10 only. */
    virtual long versionRuntimeCuDNN() const
    {
        return versionCuDNN();
    }
    virtual long versionCuDNNFrontend() const
    {
        return 11400;
    }
    long versionCUDART() const override
    {
        return 13000;
    }
    double batchnormMinEpsilonCuDNN() const override
    {
        return 1e-5;
    }
    const Generator &getDefaultGenerator(DeviceIndex) const override
    {
        static const Generator generator = detail::createCPUGenerator();
        return generator;
    }
    Generator getNewGenerator(DeviceIndex) const override
    {
        return detail::createCPUGenerator();
    }
    bool hasPrimaryContext(DeviceIndex) const override
    {
        return true;
    }
    DeviceIndex current_device() const override
    {
        return mt_dry::current_device();
    }
    DeviceIndex getCurrentDevice() const override
    {
        return mt_dry::current_device();
    }
    DeviceIndex deviceCount() const override
    {
        return static_cast<DeviceIndex>(mt_dry::card_count.load());
    }
    int getNumGPUs() const override
    {
        return mt_dry::card_count;
    }
    void setCurrentDevice(DeviceIndex device) const override
    {
        mt_dry::device_now = device;
    }
    DeviceIndex exchangeDevice(DeviceIndex device) const override
    {
        return maybeExchangeDevice(device);
    }
    DeviceIndex maybeExchangeDevice(DeviceIndex device) const override
    {
        const DeviceIndex before = mt_dry::device_now;
        if (device >= 0)
            mt_dry::device_now = device;
        return before;
    }
    Device getDeviceFromPtr(void *) const override
    {
        return Device(kCUDA, mt_dry::current_device());
    }
    Allocator *getPinnedMemoryAllocator() const override
    {
        return c10::GetCPUAllocator();
    }
    Allocator *getCUDADeviceAllocator() const override
    {
        return mt_dry::allocator();
    }
    void deviceSynchronize(DeviceIndex) const override
    {
    }
};

C10_REGISTER_CLASS_WITH_PRIORITY(CUDAHooksRegistry, CUDAHooks, c10::REGISTRY_PREFERRED, CUDAHooks)

} // namespace at

/* ---- for python/memtrace/_dry.py ---- */

extern "C" {

/* Makes this process have `count` cards. Once, after PyTorch's libraries were loaded and before its first tensor. */
void memtrace_dry_begin(int count)
{
    static mt_dry::guard guard;
    mt_dry::card_count = count;
    c10::SetAllocator(c10::DeviceType::CUDA, mt_dry::allocator(), UINT8_MAX);
    c10::impl::DeviceGuardImplRegistrar(c10::DeviceType::CUDA, &guard);
    mt_dry::register_kernels();
    mt_dry::register_shapes();
}

/* Sets the current device, and returns the one before; -1 changes nothing. */
int memtrace_dry_device(int device)
{
    const int before = mt_dry::device_now;
    if (device >= 0 && device < mt_dry::card_count)
        mt_dry::device_now = static_cast<c10::DeviceIndex>(device);
    return before;
}

/* Sets this thread's stream of a device, and returns the one before; -1 changes nothing. */
int64_t memtrace_dry_stream(int device, int64_t stream)
{
    const int64_t before = mt_dry::streams_now[device];
    if (stream >= 0)
        mt_dry::streams_now[device] = stream;
    return before;
}

/* Returns the number of a new stream. */
int64_t memtrace_dry_new_stream(void)
{
    return mt_dry::next_stream++;
}

/* Gives a storage, by the address of its c10::StorageImpl, other bytes. */
int memtrace_dry_resize(void *storage, uint64_t bytes)
{
    try {
        mt_dry::resize(static_cast<c10::StorageImpl *>(storage), bytes);
    } catch (const std::exception &) {
        return mt_dry::OUT_OF_MEMORY;
    }
    return 0;
}
}
