/* Our allocator as a benchmark's subject: on a device, untraced or into a recorder whose ring holds a burst as a whole,
 * so that storing is not part of its time. The trace must hold every event afterwards, without a stall, or the times
 * mean nothing. What fails ends the program. */
#pragma once

#include "bench/alloc_loops.h"

/* C names a struct and a function alike; C++ calls that shadowing. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#define _Static_assert static_assert /* the C spelling, which the headers use */
#include "alloc/alloc.h"
#include "alloc/plan.h"
#include "base/clock.h"
#include "base/interner.h"
#include "trace/store/recorder.h"
}
#pragma GCC diagnostic pop

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sqlite3.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace bench
{

constexpr uint64_t MIB = uint64_t(1) << 20;
constexpr uint64_t RING_RECORDS = uint64_t(1) << 20;
constexpr int PAIRS = 500000; /* a million events: with those to warm up less than the ring holds */
constexpr int WARM_UP_PAIRS = 1000;
constexpr size_t BURST = 900000; /* events of a replay, about */
constexpr int WARM_UP_STEPS = 2;

struct Size {
    const char *name;
    uint64_t bytes;
};
constexpr Size sizes[] = {{"4 KiB", 4096}, {"2 MiB", 2 * MIB}, {"100 MiB", 100 * MIB}};

[[noreturn]] inline void give_up(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, mt_last_error());
    exit(1);
}

inline void expect(mt_status status, const char *what)
{
    if (status != MT_OK)
        give_up(what);
}

inline double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? NAN : values[values.size() / 2];
}

class Device
{
  public:
    explicit Device(const char *spelling)
    {
        expect(mt_device_open(spelling, &device), spelling);
    }
    ~Device()
    {
        mt_device_close(device);
    }
    mt_device *device = nullptr;
};

class Ours
{
  public:
    Ours(mt_device *device, const mt_sink *sink, const char *settings_text)
    {
        mt_alloc_settings settings;
        expect(mt_alloc_settings_parse(settings_text, &settings), settings_text);
        expect(mt_alloc_create(device, sink, &settings, &alloc_), settings_text);
        mt_label label{};
        label.category = MT_CATEGORY_EINSUM;
        label.op = "bench";
        label.layer = -1;
        label_ = mt_alloc_intern_label(alloc_, &label);
    }

    mt_block *take(uint64_t bytes)
    {
        mt_block *block;
        if (mt_alloc_take(alloc_, bytes, 0, label_, 0, &block) != MT_OK)
            give_up("take");
        return block;
    }

    void give(mt_block *block)
    {
        mt_alloc_give(alloc_, block);
    }

    uint64_t reserved_bytes() const
    {
        struct mt_alloc_stats stats;
        mt_alloc_stats(alloc_, &stats);
        return stats.peak_reserved_bytes;
    }

    void follow(const mt_plan *plan)
    {
        expect(mt_alloc_follow(alloc_, plan), "follow");
    }

    void begin_step(uint64_t number)
    {
        mt_alloc_mark(alloc_, MT_EVENT_STEP_BEGIN, number, 0);
    }

    ~Ours()
    {
        mt_alloc_destroy(alloc_);
    }

  private:
    struct mt_alloc *alloc_;
    mt_label_id label_;
};

/* A destination of events: nowhere, or a trace of its own, which is removed at the end. */
class Sink
{
  public:
    Sink() : interner_(mt_interner_create()), discarding_(mt_sink_discarding(interner_)), sink_(&discarding_)
    {
    }

    explicit Sink(const std::string &path) : path_(path)
    {
        unlink(path.c_str());
        mt_run_info info{};
        info.device = "bench";
        info.ring_records = RING_RECORDS;
        expect(mt_recorder_open(path.c_str(), &info, &recorder_), "recorder");
        sink_ = mt_recorder_sink(recorder_);
    }

    void flush()
    {
        if (recorder_ != nullptr)
            expect(mt_recorder_flush(recorder_), "flush");
    }

    const mt_sink *sink() const
    {
        return sink_;
    }

    /* Says how many allocations and frees were emitted. */
    void count(uint64_t events)
    {
        events_ += events;
    }

    ~Sink()
    {
        if (recorder_ != nullptr) {
            expect(mt_recorder_close(recorder_, MT_RUN_DONE), "recorder");
            expect_all_stored();
            unlink(path_.c_str());
        }
        mt_interner_destroy(interner_);
    }

  private:
    /* A burst that lost events, or waited for the writer, was no burst. */
    void expect_all_stored()
    {
        sqlite3 *trace = nullptr;
        sqlite3_stmt *row = nullptr;
        const char *sql = "SELECT lost_events, stall_count, "
                          "(SELECT count(*) FROM event WHERE kind IN (SELECT id FROM event_kind WHERE name IN "
                          "('alloc', 'free'))) FROM run";
        bool read = sqlite3_open(path_.c_str(), &trace) == SQLITE_OK &&
                    sqlite3_prepare_v2(trace, sql, -1, &row, nullptr) == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW;
        if (!read || sqlite3_column_int64(row, 0) != 0 || sqlite3_column_int64(row, 1) != 0 ||
            uint64_t(sqlite3_column_int64(row, 2)) != events_) {
            fprintf(stderr, "%s: events were lost or waited for: the traced times mean nothing\n",
                    program_invocation_short_name);
            exit(1);
        }
        sqlite3_finalize(row);
        sqlite3_close(trace);
    }

    std::string path_;
    struct mt_interner *interner_ = nullptr;
    mt_sink discarding_{};
    struct mt_recorder *recorder_ = nullptr;
    const mt_sink *sink_ = nullptr;
    uint64_t events_ = 0;
};

/* Nanoseconds of a cached pair. */
inline double ours_pair_ns(mt_device *device, Sink &sink, const char *settings, uint64_t bytes)
{
    Ours ours(device, sink.sink(), settings);
    pair_ns(ours, bytes, WARM_UP_PAIRS);
    double ns = pair_ns(ours, bytes, PAIRS);
    sink.flush();
    sink.count(2 * (WARM_UP_PAIRS + PAIRS));
    return ns;
}

/* Nanoseconds of an event of a step replayed, when it no longer asks the device for anything. */
inline double ours_event_ns(mt_device *device, Sink &sink, const char *settings, const Sequence &step)
{
    Ours ours(device, sink.sink(), settings);
    int times = int(BURST / step.rows.size());
    double ns;
    {
        Replay<Ours> replay(ours, step);
        replay.event_ns(WARM_UP_STEPS);
        ns = replay.event_ns(times);
    }
    sink.flush();
    sink.count(2 * step.carried.size() + uint64_t(WARM_UP_STEPS + times) * step.rows.size());
    return ns;
}

/* The requests of a step's beginning and of so many steps, which plan.h packs. */
inline std::vector<mt_plan_request> requests_of(const Sequence &step, int64_t steps)
{
    std::vector<mt_plan_request> requests;
    std::vector<size_t> request_of(step.ids);
    auto add = [&](const std::vector<Row> &rows, int64_t number) {
        for (const Row &row : rows) {
            if (row.bytes == 0) {
                requests[request_of[row.id]].freed = requests.size();
                continue;
            }
            request_of[row.id] = requests.size();
            requests.push_back({row.bytes, MT_PLAN_KEPT, number});
        }
    };
    add(step.carried, MT_NO_STEP);
    for (int64_t number = 0; number < steps; number++)
        add(step.rows, number);
    return requests;
}

class Plan
{
  public:
    explicit Plan(const Sequence &step)
    {
        std::vector<mt_plan_request> requests = requests_of(step, 3);
        expect(mt_plan_make(requests.data(), requests.size(), &plan), "plan");
    }
    ~Plan()
    {
        mt_plan_destroy(plan);
    }
    mt_plan *plan = nullptr;
};

/* A step under a plan: nanoseconds of an event, and what is reserved over the most that is requested at once. */
struct Planned {
    double event_ns, reserved_share;
};

inline Planned ours_planned(mt_device *device, Sink &sink, const Sequence &step, const Plan &plan)
{
    Ours ours(device, sink.sink(), "policy=tight");
    ours.follow(plan.plan);
    Replay<Ours> replay(ours, step);
    std::vector<double> ns;
    for (int number = 0; number < int(BURST / step.rows.size()); number++) {
        ours.begin_step(uint64_t(number));
        ns.push_back(replay.event_ns(1));
    }
    return {median(ns), double(ours.reserved_bytes()) / double(step.peak_requested)};
}

/* Returns the bytes reserved for a sequence over the most bytes that are requested at once. */
inline double ours_reserved_share(mt_device *device, Sink &sink, const char *settings, const Sequence &sequence)
{
    Ours ours(device, sink.sink(), settings);
    Replay<Ours>(ours, sequence).event_ns(1);
    return double(ours.reserved_bytes()) / double(sequence.peak_requested);
}

} // namespace bench
