/* The guard: keeps each thread's current device, and its current stream there. */
#include "producers/torch/dry/dry_device.h"

#include "producers/torch/dry/dry_capture.h"
#include "producers/torch/dry/dry_library.h"
#include "producers/torch/memtrace_torch.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <atomic>

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

constexpr c10::StreamId FIRST_STREAM = 32; /* 0 and 1 are the default stream's numbers */

std::atomic<int> cards{1};
std::atomic<c10::StreamId> next_stream{FIRST_STREAM};
thread_local DeviceIndex device_now = 0;
thread_local c10::StreamId streams_now[INT8_MAX + 1]; /* by any DeviceIndex, even without a card */

Stream stream_of(Device device, c10::StreamId id)
{
    const DeviceIndex index = device.index() < 0 ? device_now : device.index();
    return Stream(Stream::UNSAFE, Device(DeviceType::CUDA, index), id);
}

/* Events are done as soon as they are recorded, since nothing runs. An event is the number, plus 1 so that it is not
 * null, of the capture that recorded it. Streams that wait for the event join that capture. */
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
        TORCH_CHECK(device.index() < cards, "CUDA error: invalid device ordinal: ", int(device.index()),
                    "; the simulated cards are 0 to ", cards - 1);
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
        return static_cast<DeviceIndex>(cards.load());
    }
    void record(void **event, const Stream &stream, const DeviceIndex, const c10::EventFlag) const override
    {
        *event = reinterpret_cast<void *>(capture_of(stream) + 1);
    }
    void block(void *event, const Stream &stream) const override
    {
        if (event != nullptr)
            join_capture(reinterpret_cast<uintptr_t>(event) - 1, stream);
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
    void synchronizeStream(const Stream &stream) const override
    {
        refuse_if_capturing(stream);
    }
    void synchronizeEvent(void *) const override
    {
    }
    void synchronizeDevice(const DeviceIndex device) const override
    {
        refuse_if_any_captures(device);
    }
    double elapsedTime(void *, void *, const DeviceIndex) const override
    {
        return 1;
    }
    void recordDataPtrOnStream(const c10::DataPtr &data, const Stream &stream) const override
    {
        memtrace_torch_record_stream(data.get(), reinterpret_cast<void *>(stream.id()));
    }
};

} // namespace

void begin_guard(int count)
{
    static guard guard;
    cards = count;
    c10::impl::DeviceGuardImplRegistrar(DeviceType::CUDA, &guard);
}

int card_count()
{
    return cards;
}

DeviceIndex current_device()
{
    return device_now;
}

void set_current_device(DeviceIndex device)
{
    if (device >= 0 && device < cards)
        device_now = device;
}

Stream current_stream(DeviceIndex device)
{
    return stream_of(Device(DeviceType::CUDA, device), streams_now[device]);
}

} // namespace mt_dry

int memtrace_dry_device(int device)
{
    const int before = mt_dry::current_device();
    mt_dry::set_current_device(static_cast<c10::DeviceIndex>(device));
    return before;
}

int64_t memtrace_dry_stream(int device, int64_t stream)
{
    const int64_t before = mt_dry::streams_now[device];
    if (stream >= 0)
        mt_dry::streams_now[device] = stream;
    return before;
}

int64_t memtrace_dry_new_stream(void)
{
    return mt_dry::next_stream++;
}
