/* Costs of an allocation: a cached block taken and given back, untraced and traced, and training steps replayed. A
 * best-fit allocator over std::set, built as PyTorch's caching allocator is, is measured in the same run. On a card,
 * bench_alloc_card measures beside PyTorch's own.
 *
 * Times are medians of repetitions in which every variant takes its turn, so that a busy machine slows them all. The
 * first does not count: it brings the recorder's ring into memory. Reserved bytes are shown over the peak of requested
 * bytes, which is at most that of allocated bytes. */
#include "bench/alloc_ours.h"
#include "bench/alloc_sequence.h"
#include "bench/alloc_set.h"
#include "bench/report.h"

using namespace bench;

namespace
{

constexpr int REPETITIONS = 7;
constexpr double NONE = NAN;

/* A device whose clock is the host's, which a traced event reads, as on a card. Nothing touches its memory, so it may
 * be larger than the host's. */
constexpr const char *CLOCKED = "cpu:256GiB";

struct Policy {
    const char *name, *settings;
    double pair_ns, traced_pair_ns, event_ns, traced_event_ns, share; /* at most; NAN: nothing was promised */
};
constexpr Policy policies[] = {{"tight", "policy=tight", 40, 80, 30, 70, 1.01},
                               {"torch", "policy=torch", 60, 120, NONE, NONE, NONE}};
constexpr int POLICIES = 2;

void report_at_most(const std::string &what, const char *unit, double ours, double peer, double target)
{
    bench_report(what.c_str(), unit, ours, peer, std::isnan(target) ? "" : BENCH_AT_MOST, target);
}

/* Nanoseconds of repetitions, ours in the order of `policies`. */
struct Times {
    std::vector<double> untraced[POLICIES], traced[POLICIES], peer;
};

/* Lets every variant take its turn, again and again. `ours(sink, settings)` and `peer()` measure once, in
 * nanoseconds. */
template <class OursNs, class PeerNs> Times measure_in_turn(OursNs ours, PeerNs peer)
{
    Sink nowhere, traces[POLICIES] = {Sink("bench_alloc_0.db"), Sink("bench_alloc_1.db")};
    Times times;
    for (int i = -1; i < REPETITIONS; i++) {
        Times once;
        for (int p = 0; p < POLICIES; p++) {
            once.untraced[p].push_back(ours(nowhere, policies[p].settings));
            once.traced[p].push_back(ours(traces[p], policies[p].settings));
        }
        once.peer.push_back(peer());
        if (i < 0)
            continue;
        for (int p = 0; p < POLICIES; p++) {
            times.untraced[p].push_back(once.untraced[p][0]);
            times.traced[p].push_back(once.traced[p][0]);
        }
        times.peer.push_back(once.peer[0]);
    }
    return times;
}

/* Reports the time of one reading of the host's clock, a part of the cost of a traced event. */
void report_clock()
{
    constexpr int READINGS = 1000000;
    std::vector<double> ns;
    for (int i = 0; i < REPETITIONS; i++) {
        uint64_t start = mt_clock_ns();
        for (int reading = 0; reading < READINGS; reading++)
            mt_clock_ns();
        ns.push_back(double(mt_clock_ns() - start) / READINGS);
    }
    bench_report("clock, one reading", "ns", median(ns), NAN, "", 0);
}

double set_pair_ns(uint64_t bytes)
{
    Device device("sim");
    SetAllocator set(device.device);
    pair_ns(set, bytes, WARM_UP_PAIRS);
    return pair_ns(set, bytes, PAIRS);
}

void report_pairs(const Size &size)
{
    Times times = measure_in_turn(
        [&](Sink &sink, const char *settings) {
            Device device(CLOCKED);
            return ours_pair_ns(device.device, sink, settings, size.bytes);
        },
        [&] { return set_pair_ns(size.bytes); });
    for (int p = 0; p < POLICIES; p++) {
        std::string what = std::string("cached alloc+free, ") + size.name + ", " + policies[p].name;
        report_at_most(what, "ns", median(times.untraced[p]), median(times.peer), policies[p].pair_ns);
        report_at_most(what + ", traced", "ns", median(times.traced[p]), median(times.peer),
                       policies[p].traced_pair_ns);
    }
}

double set_event_ns(const Sequence &step)
{
    Device device("sim");
    SetAllocator set(device.device);
    Replay<SetAllocator> replay(set, step);
    replay.event_ns(WARM_UP_STEPS);
    return replay.event_ns(int(BURST / step.rows.size()));
}

void report_step(const char *name, const Sequence &step)
{
    Times times = measure_in_turn(
        [&](Sink &sink, const char *settings) {
            Device device(CLOCKED);
            return ours_event_ns(device.device, sink, settings, step);
        },
        [&] { return set_event_ns(step); });
    for (int p = 0; p < POLICIES; p++) {
        std::string what = std::string("an event of a step, ") + name + ", " + policies[p].name;
        report_at_most(what, "ns", median(times.untraced[p]), median(times.peer), policies[p].event_ns);
        report_at_most(what + ", traced", "ns", median(times.traced[p]), median(times.peer),
                       policies[p].traced_event_ns);
    }
}

/* A plan is made for steps, so its figures are of one: what is reserved is over less than a run's peak, which has
 * parameters and moments, too, and so has no target here. */
void report_planned(const char *name, const Sequence &step)
{
    Sink nowhere;
    Plan plan(step);
    std::vector<double> planned, tight;
    double share = NONE;
    for (int i = 0; i < REPETITIONS; i++) {
        Device devices[] = {Device("sim"), Device("sim")};
        Planned once = ours_planned(devices[0].device, nowhere, step, plan);
        planned.push_back(once.event_ns);
        share = once.reserved_share;
        tight.push_back(ours_event_ns(devices[1].device, nowhere, "policy=tight", step));
    }
    const std::string of = std::string(", ") + name + ", plan";
    report_at_most("an event of a step" + of + ", beside tight", "ns", median(planned), median(tight), 30);
    Device device("sim");
    report_at_most("reserved over requested of a step" + of + ", beside tight", "1", share,
                   ours_reserved_share(device.device, nowhere, "policy=tight", step), NONE);
}

double set_reserved_share(const Sequence &run)
{
    Device device("sim");
    SetAllocator set(device.device);
    Replay<SetAllocator>(set, run).event_ns(1);
    return double(set.reserved_bytes()) / double(run.peak_requested);
}

void report_reserved(const char *name, const Sequence &run)
{
    Sink nowhere;
    for (const Policy &policy : policies) {
        Device device("sim");
        double ours = ours_reserved_share(device.device, nowhere, policy.settings, run);
        report_at_most(std::string("reserved over requested, ") + name + ", " + policy.name, "1", ours,
                       set_reserved_share(run), policy.share);
    }
}

} // namespace

int main()
{
    report_clock();
    for (const Size &size : sizes)
        report_pairs(size);
    for (const Replayed &model : replayed) {
        const Sequence step = read_sequence(MT_TEST_DATA + std::string(model.step));
        report_step(model.name, step);
        report_planned(model.name, step);
        report_reserved(model.name, read_sequence(MT_TEST_DATA + std::string(model.run)));
    }
    return 0;
}
