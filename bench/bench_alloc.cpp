/* What an allocation costs: a cached block taken and given back, untraced and traced, and real training steps replayed;
 * beside a best-fit allocator over std::set, built as PyTorch's caching allocator is, in the same run.
 *
 * Pairs are medians of repetitions in which every variant takes its turn, traced and untraced alike, so that a busy
 * machine slows them all. Traced, a repetition is one burst of a million events that the recorder's ring holds as a whole,
 * after one that brought its pages into memory; storing them is not part of the time, but the trace must hold every one
 * of them afterwards, without a stall. Reserved is shown over the peak of what was requested. */
#include "bench/report.h"

/* C names a struct and a function alike; C++ calls that shadowing. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#define _Static_assert static_assert /* the C spelling, which the headers use */
#include "alloc/alloc.h"
#include "base/clock.h"
#include "base/interner.h"
#include "trace/recorder.h"
}
#pragma GCC diagnostic pop

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <sqlite3.h>
#include <string>
#include <unistd.h>
#include <unordered_set>
#include <vector>
#include <zlib.h>

namespace
{

constexpr uint64_t MIB = uint64_t(1) << 20;
constexpr int REPETITIONS = 9;
constexpr int PAIRS = 500000; /* a million events */

[[noreturn]] void give_up(const char *what)
{
    fprintf(stderr, "bench_alloc: %s: %s\n", what, mt_last_error());
    exit(1);
}

void expect(mt_status status, const char *what)
{
    if (status != MT_OK)
        give_up(what);
}

/* ---- The peer: ordered sets of free blocks, a hash set of those that are out, one recursive lock. ---- */

struct PeerBlock;
struct PeerOrder {
    bool operator()(const PeerBlock *a, const PeerBlock *b) const;
};
using PeerSet = std::set<PeerBlock *, PeerOrder>;

struct PeerBlock {
    int stream;
    uint64_t size;
    PeerSet *pool;
    mt_addr address;
    PeerBlock *before, *after;
    bool is_out;
};

bool PeerOrder::operator()(const PeerBlock *a, const PeerBlock *b) const
{
    if (a->stream != b->stream)
        return a->stream < b->stream;
    return a->size != b->size ? a->size < b->size : a->address < b->address;
}

class Peer
{
  public:
    explicit Peer(mt_device *device) : device_(device)
    {
    }

    PeerBlock *take(uint64_t bytes)
    {
        std::lock_guard<std::recursive_mutex> guard(mutex_);
        uint64_t size = (bytes + 511) / 512 * 512;
        PeerSet *pool = size <= MIB ? &small_ : &large_;
        PeerBlock key{0, size, pool, 0, nullptr, nullptr, false};
        auto found = pool->lower_bound(&key);
        PeerBlock *block = nullptr;
        if (found == pool->end()) {
            block = reserve(size, pool);
        } else {
            block = *found;
            pool->erase(found);
        }
        uint64_t rest = block->size - size;
        if (pool == &small_ ? rest >= 512 : rest > MIB)
            split(block, size);
        block->is_out = true;
        out_.insert(block);
        allocated_ += block->size;
        peak_allocated_ = std::max(peak_allocated_, allocated_);
        return block;
    }

    void give(PeerBlock *block)
    {
        std::lock_guard<std::recursive_mutex> guard(mutex_);
        allocated_ -= block->size;
        out_.erase(block);
        block->is_out = false;
        merge(block, block->before);
        merge(block, block->after);
        block->pool->insert(block);
    }

    uint64_t reserved_bytes() const
    {
        return reserved_;
    }

    ~Peer()
    {
        for (PeerSet *pool : {&small_, &large_})
            for (PeerBlock *block : *pool)
                delete block;
        for (PeerBlock *block : out_)
            delete block;
    }

  private:
    PeerBlock *reserve(uint64_t size, PeerSet *pool)
    {
        uint64_t bytes = size <= MIB       ? 2 * MIB
                         : size < 10 * MIB ? 20 * MIB
                                           : (size + 2 * MIB - 1) / (2 * MIB) * 2 * MIB;
        mt_addr address;
        expect(mt_device_reserve(device_, bytes, &address), "the peer");
        reserved_ += bytes;
        return new PeerBlock{0, bytes, pool, address, nullptr, nullptr, false};
    }

    static void split(PeerBlock *block, uint64_t size)
    {
        auto *rest = new PeerBlock{block->stream, block->size - size, block->pool, block->address + size,
                                   block,         block->after,       false};
        if (rest->after)
            rest->after->before = rest;
        block->after = rest;
        block->size = size;
        block->pool->insert(rest);
    }

    /* `block` takes in its neighbour `other`, if that is free. */
    static void merge(PeerBlock *block, PeerBlock *other)
    {
        if (!other || other->is_out)
            return;
        block->pool->erase(other);
        if (other == block->before) {
            block->address = other->address;
            block->before = other->before;
            if (block->before)
                block->before->after = block;
        } else {
            block->after = other->after;
            if (block->after)
                block->after->before = block;
        }
        block->size += other->size;
        delete other;
    }

    mt_device *device_;
    std::recursive_mutex mutex_;
    PeerSet small_, large_;
    std::unordered_set<PeerBlock *> out_;
    uint64_t reserved_ = 0, allocated_ = 0, peak_allocated_ = 0;
};

/* ---- Ours, behind the same two calls. ---- */

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

    void flush()
    {
        expect(mt_alloc_flush(alloc_), "flush");
    }

    ~Ours()
    {
        mt_alloc_destroy(alloc_);
    }

  private:
    struct mt_alloc *alloc_;
    mt_label_id label_;
};

/* ---- Measuring. ---- */

template <class Allocator> double pair_ns(Allocator &allocator, uint64_t bytes)
{
    uint64_t start = mt_clock_ns();
    for (int i = 0; i < PAIRS; i++)
        allocator.give(allocator.take(bytes));
    return double(mt_clock_ns() - start) / PAIRS;
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct Device {
    mt_device *device = nullptr;
    Device()
    {
        expect(mt_device_open("sim", &device), "sim");
    }
    ~Device()
    {
        mt_device_close(device);
    }
};

struct Size {
    const char *name;
    uint64_t bytes;
};

constexpr Size sizes[] = {{"4 KiB", 4096}, {"2 MiB", 2 * MIB}, {"100 MiB", 100 * MIB}};
constexpr const char *policies[] = {"tight", "torch"};

std::string settings_of(const char *policy)
{
    return std::string("policy=") + policy;
}

/* A recorder into a trace of its own, removed at the end. */
class Traced
{
  public:
    explicit Traced(const char *policy) : path_(std::string("bench_alloc_") + policy + ".db")
    {
        unlink(path_.c_str());
        mt_run_info info{};
        info.device = "sim";
        info.ring_records = uint64_t(1) << 20;
        expect(mt_recorder_open(path_.c_str(), &info, &recorder_), "recorder");
        allocator_ = std::make_unique<Ours>(device_.device, mt_recorder_sink(recorder_), settings_of(policy).c_str());
    }

    double burst_ns(uint64_t bytes)
    {
        double ns = pair_ns(*allocator_, bytes);
        allocator_->flush();
        bursts_++;
        return ns;
    }

    ~Traced()
    {
        allocator_.reset();
        expect(mt_recorder_close(recorder_, MT_RUN_DONE), "recorder");
        expect_all_stored();
        unlink(path_.c_str());
    }

  private:
    /* A burst that lost events, or waited for the writer, was no burst: its time would mean nothing. */
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
            sqlite3_column_int64(row, 2) != int64_t(bursts_) * PAIRS * 2) {
            fprintf(stderr, "bench_alloc: events were lost or waited for: the traced times mean nothing\n");
            exit(1);
        }
        sqlite3_finalize(row);
        sqlite3_close(trace);
    }

    std::string path_;
    int bursts_ = 0;
    Device device_;
    mt_recorder *recorder_ = nullptr;
    std::unique_ptr<Ours> allocator_;
};

/* Nanoseconds of the repetitions, in the order of `policies`. */
struct Pairs {
    std::vector<double> untraced[2], traced[2], peer;
};

void measure_pairs(const Size &size, const mt_sink &sink, Pairs &pairs)
{
    Device devices[3];
    Ours tight(devices[0].device, &sink, "policy=tight"), torch(devices[1].device, &sink, "policy=torch");
    Peer peer(devices[2].device);
    Traced traced_tight(policies[0]), traced_torch(policies[1]);
    traced_tight.burst_ns(size.bytes);
    traced_torch.burst_ns(size.bytes);
    for (int i = 0; i < REPETITIONS; i++) {
        pairs.untraced[0].push_back(pair_ns(tight, size.bytes));
        pairs.traced[0].push_back(traced_tight.burst_ns(size.bytes));
        pairs.untraced[1].push_back(pair_ns(torch, size.bytes));
        pairs.traced[1].push_back(traced_torch.burst_ns(size.bytes));
        pairs.peer.push_back(pair_ns(peer, size.bytes));
    }
}

void report_pairs(const Size &size)
{
    mt_interner *interner = mt_interner_create();
    Pairs pairs;
    measure_pairs(size, mt_sink_discarding(interner), pairs);
    mt_interner_destroy(interner);
    double peer = median(pairs.peer);
    for (int p = 0; p < 2; p++) {
        std::string what = std::string("cached alloc+free, ") + size.name + ", " + policies[p];
        bench_report(what.c_str(), "ns", median(pairs.untraced[p]), peer, BENCH_AT_MOST, 60);
        bench_report((what + ", traced").c_str(), "ns", median(pairs.traced[p]), peer, BENCH_AT_MOST, 120);
    }
}

/* ---- Replaying. ---- */

struct Row {
    uint32_t id;
    uint64_t bytes; /* 0: a free */
};

struct Sequence {
    std::vector<Row> rows;
    uint32_t ids = 0;
    uint64_t peak_requested = 0;
};

/* Reads rows of `action,id,bytes,…`. */
Sequence read_sequence(const char *path)
{
    gzFile file = gzopen(path, "rb");
    char line[256];
    if (!file || !gzgets(file, line, sizeof line)) {
        fprintf(stderr, "bench_alloc: can't read %s\n", path);
        exit(1);
    }
    Sequence sequence;
    std::vector<uint64_t> bytes_of;
    uint64_t live = 0;
    while (gzgets(file, line, sizeof line)) {
        Row row{};
        if (sscanf(line, "alloc,%" SCNu32 ",%" SCNu64, &row.id, &row.bytes) == 2) {
            bytes_of.resize(std::max<size_t>(bytes_of.size(), row.id + 1));
            live += bytes_of[row.id] = row.bytes;
        } else if (sscanf(line, "free,%" SCNu32, &row.id) == 1) {
            live -= bytes_of.at(row.id);
        }
        sequence.peak_requested = std::max(sequence.peak_requested, live);
        sequence.rows.push_back(row);
    }
    gzclose(file);
    sequence.ids = uint32_t(bytes_of.size());
    return sequence;
}

struct Outcome {
    std::vector<double> event_ns;
    double reserved_share = 0;
};

template <class Allocator> void replay(Allocator &allocator, const Sequence &sequence, Outcome &outcome)
{
    std::vector<decltype(allocator.take(1))> blocks(sequence.ids);
    uint64_t start = mt_clock_ns();
    for (const Row &row : sequence.rows) {
        if (row.bytes)
            blocks[row.id] = allocator.take(row.bytes);
        else
            allocator.give(blocks[row.id]);
    }
    outcome.event_ns.push_back(double(mt_clock_ns() - start) / double(sequence.rows.size()));
    outcome.reserved_share = double(allocator.reserved_bytes()) / double(sequence.peak_requested);
}

void report_replay(const char *name, const Sequence &sequence)
{
    mt_interner *interner = mt_interner_create();
    mt_sink sink = mt_sink_discarding(interner);
    Outcome outcomes[3];
    for (int i = 0; i < REPETITIONS; i++) {
        for (int p = 0; p < 2; p++) {
            Device device;
            Ours ours(device.device, &sink, settings_of(policies[p]).c_str());
            replay(ours, sequence, outcomes[p]);
        }
        Device device;
        Peer peer(device.device);
        replay(peer, sequence, outcomes[2]);
    }
    mt_interner_destroy(interner);
    for (int p = 0; p < 2; p++) {
        std::string what = std::string("replay ") + name + ", " + policies[p];
        bench_report((what + ", an event").c_str(), "ns", median(outcomes[p].event_ns), median(outcomes[2].event_ns),
                     "", 0);
        bench_report((what + ", reserved over requested").c_str(), "1", outcomes[p].reserved_share,
                     outcomes[2].reserved_share, p == 0 ? BENCH_AT_MOST : "", 1.02);
    }
}

} // namespace

/* Usage: bench_alloc [SEQUENCE.csv.gz...]; those of tests/data/replay unless named. */
int main(int argc, char **argv)
{
    for (const Size &size : sizes)
        report_pairs(size);
    for (int i = 1; i < argc; i++)
        report_replay(argv[i], read_sequence(argv[i]));
    if (argc > 1)
        return 0;
    const std::string folder = MT_TEST_DATA "/replay/cs336_2.7B_seq256_";
    report_replay("2.7B fp32", read_sequence((folder + "fp32_segments.csv.gz").c_str()));
    report_replay("2.7B autocast", read_sequence((folder + "autocast_segments.csv.gz").c_str()));
    return 0;
}
