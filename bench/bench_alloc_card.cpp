/* Costs of an allocation on a card: a cached pair, an event of a repeated training step, and reserved bytes. The peers
 * are PyTorch's caching allocator through its C++ entry, with and without memory history, and cudaMallocAsync.
 *
 *   bench_alloc_card [--device DEVICE] [--data FOLDER] [--torch COMMAND] [--async COMMAND]
 *
 * DEVICE is cuda unless given, FOLDER tests/data. The commands start peers (peer.h; pytorch_allocator.py and
 * peer_async), each in a process of its own that waits while another measures. Times are medians of repetitions in
 * which every variant takes its turn; the first does not count. A row lacks a peer if there is none. Without a usable
 * card nothing is measured. */
#include "bench/alloc_ours.h"
#include "bench/alloc_sequence.h"
#include "bench/peer.h"
#include "bench/report.h"

using namespace bench;

namespace
{

constexpr int REPETITIONS = 5;
constexpr int PEER_PAIRS = 50000;
constexpr int PEER_STEPS = 10;
constexpr const char *SETTINGS = "policy=tight";
constexpr const char *SEQUENCE = "bench_alloc_card.rows";

/* The variants measured beside each other: ours untraced or traced, and the peers. */
enum Variant { UNTRACED, TORCH, ASYNC, TRACED, TORCH_PYTHON, TORCH_ALL, VARIANTS };

struct Peers {
    peer torch, async;
};

/* Asks PyTorch's allocator with a history of "off", "python" or "all". */
double ask_torch(Peers &peers, const char *history, const std::string &question)
{
    double ns;
    peer_ask(&peers.torch, &ns, 0, "history %s", history);
    peer_ask(&peers.torch, &ns, 1, "%s", question.c_str());
    peer_ask(&peers.torch, NULL, 0, "history off");
    return ns;
}

double ask_async(Peers &peers, const std::string &question)
{
    double ns;
    peer_ask(&peers.async, &ns, 1, "%s", question.c_str());
    return ns;
}

struct Times {
    std::vector<double> ns[VARIANTS];

    void add(Variant variant, double value)
    {
        ns[variant].push_back(value);
    }

    double of(Variant variant) const
    {
        return median({ns[variant].begin() + 1, ns[variant].end()});
    }
};

/* `ours(sink)` measures ours once; `question` asks a peer for the same. */
template <class OursNs> Times measure_in_turn(Peers &peers, const std::string &question, OursNs ours)
{
    Sink nowhere, trace("bench_alloc_card.db");
    Times times;
    for (int i = 0; i <= REPETITIONS; i++) {
        times.add(UNTRACED, ours(nowhere));
        times.add(TORCH, ask_torch(peers, "off", question));
        times.add(ASYNC, ask_async(peers, question));
        times.add(TRACED, ours(trace));
        times.add(TORCH_PYTHON, ask_torch(peers, "python", question));
        times.add(TORCH_ALL, ask_torch(peers, "all", question));
    }
    return times;
}

/* Ours with its target and without a peer, then beside each peer that there is. */
struct Figure {
    std::string what;
    const char *unit;
    double ours, target;

    void report() const
    {
        bench_report(what.c_str(), unit, ours, NAN, BENCH_AT_MOST, target);
    }

    void beside(const char *peer_name, double peer) const
    {
        if (!std::isnan(peer))
            bench_report((what + ", beside " + peer_name).c_str(), unit, ours, peer, "", NAN);
    }
};

void report_times(const std::string &what, const Times &times, double untraced_target, double traced_target)
{
    const Figure untraced = {what, "ns", times.of(UNTRACED), untraced_target};
    untraced.report();
    untraced.beside("PyTorch", times.of(TORCH));
    untraced.beside("cudaMallocAsync", times.of(ASYNC));
    const Figure traced = {what + ", traced", "ns", times.of(TRACED), traced_target};
    traced.report();
    traced.beside("PyTorch with Python frames", times.of(TORCH_PYTHON));
    traced.beside("PyTorch with all frames", times.of(TORCH_ALL));
}

void report_clock(const Device &device)
{
    constexpr int READINGS = 1000000;
    std::vector<double> ns;
    for (int i = 0; i < REPETITIONS; i++) {
        double start = now_ns();
        for (int reading = 0; reading < READINGS; reading++)
            mt_device_now_ns(device.device);
        ns.push_back((now_ns() - start) / READINGS);
    }
    bench_report("allocator: the device's clock, one reading", "ns", median(ns), NAN, "", 0);
}

void give_to_peers(const Sequence &sequence)
{
    if (write_sequence(sequence, SEQUENCE))
        return;
    perror(SEQUENCE);
    exit(1);
}

void report_pairs(const Device &device, Peers &peers, const Size &size)
{
    std::string question = "pair " + std::to_string(size.bytes) + " " + std::to_string(PEER_PAIRS);
    Times times = measure_in_turn(peers, question,
                                  [&](Sink &sink) { return ours_pair_ns(device.device, sink, SETTINGS, size.bytes); });
    report_times(std::string("allocator: pair, ") + size.name, times, 40, 80);
}

void report_step(const Device &device, Peers &peers, const char *name, const Sequence &step)
{
    std::string question =
        std::string("event ") + SEQUENCE + " " + std::to_string(WARM_UP_STEPS) + " " + std::to_string(PEER_STEPS);
    give_to_peers(step);
    Times times = measure_in_turn(peers, question,
                                  [&](Sink &sink) { return ours_event_ns(device.device, sink, SETTINGS, step); });
    report_times(std::string("allocator: an event of a step, ") + name, times, 30, 70);
}

void report_reserved(const Device &device, Peers &peers, const char *name, const Sequence &run)
{
    const std::string question = std::string("reserved ") + SEQUENCE;
    const double peak = double(run.peak_requested);
    Sink nowhere;
    const Figure share = {std::string("allocator: reserved over requested, ") + name, "1",
                          ours_reserved_share(device.device, nowhere, SETTINGS, run), 1.01};
    give_to_peers(run);
    share.report();
    share.beside("PyTorch", ask_torch(peers, "off", question) / peak);
    share.beside("cudaMallocAsync", ask_async(peers, question) / peak);
}

void measure(const char *device_name, const std::string &data, Peers &peers)
{
    Device device(device_name);
    report_clock(device);
    for (const Size &size : sizes)
        report_pairs(device, peers, size);
    for (const Replayed &model : replayed) {
        report_step(device, peers, model.name, read_sequence(data + model.step));
        report_reserved(device, peers, model.name, read_sequence(data + model.run));
    }
    unlink(SEQUENCE);
}

/* Returns the argument after `name`, or `otherwise` if `name` is not among the arguments. */
const char *option(int count, char **arguments, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < count; i++)
        if (strcmp(arguments[i], name) == 0)
            return arguments[i + 1];
    return otherwise;
}

bool can_open(const char *device_name)
{
    mt_device *device;
    if (mt_device_open(device_name, &device) != MT_OK) {
        fprintf(stderr, "bench_alloc_card: nothing is measured: %s\n", mt_last_error());
        return false;
    }
    mt_device_close(device);
    return true;
}

} // namespace

int main(int count, char **arguments)
{
    const char *device = option(count, arguments, "--device", "cuda");
    if (!can_open(device))
        return 0;
    Peers peers = {peer_open(option(count, arguments, "--torch", NULL)),
                   peer_open(option(count, arguments, "--async", NULL))};
    measure(device, option(count, arguments, "--data", MT_TEST_DATA), peers);
    peer_close(&peers.torch);
    peer_close(&peers.async);
    return 0;
}
