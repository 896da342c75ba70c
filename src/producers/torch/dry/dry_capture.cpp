#include "producers/torch/dry/dry_capture.h"

#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_library.h"
#include "producers/torch/memtrace_torch.h"

#include <c10/util/Exception.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace mt_dry
{

namespace
{

constexpr int STREAM_CAPTURE_UNSUPPORTED = 900; /* cudaErrorStreamCaptureUnsupported */

using stream_place = std::pair<c10::DeviceIndex, c10::StreamId>;

stream_place place_of(c10::Stream stream)
{
    return {stream.device_index(), stream.id()};
}

c10::Stream stream_now()
{
    return current_stream(current_device());
}

/* Allocations that come from a pool. */
struct route {
    c10::DeviceIndex device;
    uint64_t first, second; /* PyTorch's pair */
    uint32_t pool;          /* its number on the card */
    int whose;              /* MEMTRACE_DRY_OF_ALL and so on */
    std::thread::id thread;
    stream_place stream;
    uint64_t capture;

    bool is_of(uint64_t its_first, uint64_t its_second, c10::DeviceIndex its_device) const
    {
        return first == its_first && second == its_second && device == its_device;
    }
};

struct capture {
    stream_place stream; /* on which it began, and must end */
    bool is_broken;      /* a call was refused */
};

/* The seed and the offset of a generator, on the card. */
using generator_state = std::array<c10::DataPtr, 2>;

/* Invariant: each value of `members` is a key of `captures`. */
struct state {
    std::mutex lock;
    std::map<uint64_t, generator_state>
        generators; /* by graph; before 2.13, the first graph's state serves all and moves to another graph */
    std::vector<route> routes;
    std::map<uint64_t, capture> captures;
    std::map<stream_place, uint64_t> members; /* the streams that are part of one */
    uint64_t last_capture = 0;
};

state &now()
{
    static auto *state_of_process = new state; /* is never destroyed: tensors are made until the process ends */
    return *state_of_process;
}

/* If these are 0, which is usual, the lock is not needed. */
std::atomic<int> route_count{0}, capture_count{0};

/* The lock is held. */
uint64_t find_capture(const state &found, stream_place stream)
{
    const auto member = found.members.find(stream);
    return member != found.members.end() ? member->second : 0;
}

bool serves(const state &found, const route &way, stream_place stream)
{
    switch (way.whose) {
    case MEMTRACE_DRY_OF_THREAD:
        return way.thread == std::this_thread::get_id();
    case MEMTRACE_DRY_OF_STREAM:
        return way.stream == stream;
    case MEMTRACE_DRY_OF_CAPTURE:
        return way.capture == find_capture(found, stream);
    default:
        return true;
    }
}

[[noreturn]] void refuse()
{
    const char *words = "CUDA error: operation not permitted when stream is capturing";
#if TORCH_VERSION_MINOR >= 8
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, STREAM_CAPTURE_UNSUPPORTED, words);
#else
    TORCH_CHECK(false, words);
#endif
}

/* Adds a user of a pool and returns the pool's number; 0 if that fails. */
uint32_t use_pool(int device, uint64_t first, uint64_t second)
{
    uint32_t number = 0;
    return memtrace_torch_pool_use(device, first, second, 0, &number) == 0 ? number : 0;
}

/* Adds a route, and a user of its pool. False if the pool has a route already, or there is no card. */
bool add_route(int device, uint64_t first, uint64_t second, int whose, uint64_t of_capture)
{
    state &state = now();
    const std::lock_guard<std::mutex> hold(state.lock);
    const auto index = static_cast<c10::DeviceIndex>(device);
    for (const route &way : state.routes)
        if (way.is_of(first, second, index))
            return false;
    const uint32_t pool = use_pool(device, first, second);
    if (pool == 0)
        return false;
    state.routes.push_back(
        {index, first, second, pool, whose, std::this_thread::get_id(), place_of(stream_now()), of_capture});
    memtrace_torch_capture_begin(device);
    route_count++;
    return true;
}

constexpr bool HAS_STATE_PER_GRAPH = TORCH_VERSION_MINOR >= 13;

constexpr size_t STATE_BYTES = sizeof(int64_t);

generator_state take_state()
{
    return {allocator()->allocate(STATE_BYTES), allocator()->allocate(STATE_BYTES)};
}

/* Before 2.13: adds a graph to those that share a state. The state is allocated for the current stream before the
 * capture. */
void share_state(uint64_t graph)
{
    state &state = now();
    std::unique_lock<std::mutex> hold(state.lock);
    const bool is_first = state.generators.empty();
    hold.unlock();
    generator_state taken = is_first ? take_state() : generator_state();
    hold.lock();
    state.generators.emplace(graph, std::move(taken));
}

/* Frees the state of a graph. A shared state moves to another graph, if there is one. */
void free_state(uint64_t graph)
{
    state &state = now();
    generator_state freed;
    const std::lock_guard<std::mutex> hold(state.lock);
    const auto found = state.generators.find(graph);
    if (found == state.generators.end())
        return;
    freed.swap(found->second);
    state.generators.erase(found);
    if (!HAS_STATE_PER_GRAPH && freed[0].get() != nullptr && !state.generators.empty())
        state.generators.begin()->second.swap(freed);
}

} // namespace

void take_generator_state()
{
    if (!HAS_STATE_PER_GRAPH || capture_count == 0)
        return;
    const c10::Stream stream = stream_now();
    const uint64_t graph = capture_of(stream);
    state &state = now();
    std::unique_lock<std::mutex> hold(state.lock);
    if (graph == 0 || state.generators.count(graph) != 0)
        return;
    hold.unlock();
    memtrace_dry_stream(stream.device_index(), 0);
    generator_state taken = take_state();
    memtrace_dry_stream(stream.device_index(), stream.id());
    hold.lock();
    state.generators.emplace(graph, std::move(taken));
}

uint32_t pool_of_next(c10::Stream stream)
{
    if (route_count == 0)
        return 0;
    state &state = now();
    const std::lock_guard<std::mutex> hold(state.lock);
    for (const route &way : state.routes)
        if (way.device == stream.device_index() && serves(state, way, place_of(stream)))
            return way.pool;
    return 0;
}

uint64_t capture_of(c10::Stream stream)
{
    if (capture_count == 0)
        return 0;
    state &state = now();
    const std::lock_guard<std::mutex> hold(state.lock);
    return find_capture(state, place_of(stream));
}

void join_capture(uint64_t number, c10::Stream stream)
{
    if (capture_count == 0 || number == 0)
        return;
    state &state = now();
    const std::lock_guard<std::mutex> hold(state.lock);
    if (state.captures.count(number) != 0)
        state.members[place_of(stream)] = number;
}

bool is_capturing()
{
    return capture_count != 0 && capture_of(stream_now()) != 0;
}

void refuse_if_capturing(c10::Stream stream)
{
    const uint64_t number = capture_of(stream);
    if (number == 0)
        return;
    state &state = now();
    {
        const std::lock_guard<std::mutex> hold(state.lock);
        state.captures[number].is_broken = true;
    }
    refuse();
}

void refuse_if_capturing()
{
    if (capture_count != 0)
        refuse_if_capturing(stream_now());
}

void refuse_if_any_captures(c10::DeviceIndex device)
{
    if (capture_count == 0)
        return;
    state &state = now();
    {
        const std::lock_guard<std::mutex> hold(state.lock);
        bool is_any = false;
        for (auto &[number, one] : state.captures)
            if (one.stream.first == device)
                is_any = one.is_broken = true;
        if (!is_any)
            return;
    }
    refuse();
}

} // namespace mt_dry

int memtrace_dry_route_begin(int device, uint64_t first, uint64_t second, int whose)
{
    return mt_dry::add_route(device, first, second, whose, 0) ? 0 : 1;
}

int memtrace_dry_route_end(int device, uint64_t first, uint64_t second)
{
    mt_dry::state &state = mt_dry::now();
    const std::lock_guard<std::mutex> hold(state.lock);
    const auto found = std::find_if(state.routes.begin(), state.routes.end(), [&](const mt_dry::route &way) {
        return way.is_of(first, second, static_cast<c10::DeviceIndex>(device));
    });
    if (found == state.routes.end())
        return 1;
    state.routes.erase(found);
    memtrace_torch_capture_end(device);
    mt_dry::route_count--;
    return 0;
}

int memtrace_dry_capture_begin(uint64_t first, uint64_t second, uint64_t *out_graph)
{
    const c10::Stream stream = mt_dry::stream_now();
    mt_dry::state &state = mt_dry::now();
    uint64_t number;
    {
        const std::lock_guard<std::mutex> hold(state.lock);
        if (mt_dry::find_capture(state, mt_dry::place_of(stream)) != 0)
            return 1;
        number = *out_graph = ++state.last_capture;
    }
    memtrace_torch_lose_uses(); /* a replay calls no operators */
    if (!mt_dry::HAS_STATE_PER_GRAPH)
        mt_dry::share_state(number);
    if (!mt_dry::add_route(stream.device_index(), first, second, MEMTRACE_DRY_OF_CAPTURE, number)) {
        mt_dry::free_state(number);
        return 1;
    }
    const std::lock_guard<std::mutex> hold(state.lock);
    state.captures[number] = {mt_dry::place_of(stream), false};
    state.members[mt_dry::place_of(stream)] = number;
    mt_dry::capture_count++;
    return 0;
}

int memtrace_dry_capture_end(void)
{
    const mt_dry::stream_place stream = mt_dry::place_of(mt_dry::stream_now());
    mt_dry::state &state = mt_dry::now();
    const std::lock_guard<std::mutex> hold(state.lock);
    const uint64_t number = mt_dry::find_capture(state, stream);
    if (number == 0 || state.captures[number].stream != stream)
        return MEMTRACE_DRY_OTHER_STREAM;
    const bool is_broken = state.captures[number].is_broken;
    for (auto member = state.members.begin(); member != state.members.end();)
        member = member->second == number ? state.members.erase(member) : std::next(member);
    state.captures.erase(number);
    mt_dry::capture_count--;
    return is_broken ? MEMTRACE_DRY_BROKEN : 0;
}

void memtrace_dry_forget_graph(uint64_t graph)
{
    mt_dry::free_state(graph);
}

int memtrace_dry_is_capturing(void)
{
    return mt_dry::is_capturing();
}

int memtrace_dry_synchronize(void)
{
    try {
        mt_dry::refuse_if_any_captures(mt_dry::current_device());
    } catch (const c10::Error &) {
        return 1;
    }
    return 0;
}

void memtrace_dry_clear_workspaces(void)
{
    mt_dry::clear_workspaces();
}
