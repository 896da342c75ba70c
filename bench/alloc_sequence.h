/* Sequences of requests as tests/data has them, ready to be replayed: `replay`, a run from its first block on, and
 * `steps`, one step, which gives back gradients of the step before.
 *
 * Relies on zlib. What can't be read ends the program. */
#pragma once

#include "bench/alloc_loops.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <zlib.h>

namespace bench
{

/* A model of tests/data: one step of it, and all of its run up to the last segment that PyTorch took. */
struct Replayed {
    const char *name, *step, *run;
};
constexpr Replayed replayed[] = {
    {"2.7B fp32", "/steps/cs336_2.7B_seq256_fp32_one_step.csv.gz", "/replay/cs336_2.7B_seq256_fp32_segments.csv.gz"},
    {"2.7B autocast", "/steps/cs336_2.7B_seq256_autocast_one_step.csv.gz",
     "/replay/cs336_2.7B_seq256_autocast_segments.csv.gz"}};

/* Reads lines of `action,id,bytes,…`, behind a number of the line or not. */
class SequenceReader
{
  public:
    explicit SequenceReader(const char *path) : path_(path)
    {
        gzFile file = gzopen(path, "rb");
        char line[4096];
        if (!file || !gzgets(file, line, sizeof line))
            give_up("can't read it");
        while (gzgets(file, line, sizeof line))
            add(line);
        gzclose(file);
        close_cycle();
        find_peak();
    }

    Sequence sequence;

  private:
    /* The free of a block that no row took: one of the time before. */
    struct Open {
        size_t row;
        uint64_t bytes;
    };

    [[noreturn]] void give_up(const char *why) const
    {
        fprintf(stderr, "%s: %s\n", path_, why);
        exit(1);
    }

    void add(const char *line)
    {
        const char *action = line + strspn(line, "0123456789,");
        uint32_t id;
        uint64_t bytes = 0;
        if (sscanf(action, "alloc,%" SCNu32 ",%" SCNu64, &id, &bytes) == 2)
            add_alloc(id, bytes);
        else if (sscanf(action, "free,%" SCNu32 ",%" SCNu64, &id, &bytes) >= 1)
            add_free(id, bytes);
        else
            give_up("a line that is neither an alloc nor a free");
    }

    void add_alloc(uint32_t id, uint64_t bytes)
    {
        uint32_t number = uint32_t(bytes_.size());
        bytes_.push_back(bytes);
        out_[id] = number;
        sequence.rows.push_back({number, bytes});
    }

    void add_free(uint32_t id, uint64_t bytes)
    {
        auto found = out_.find(id);
        if (found == out_.end()) {
            open_.push_back({sequence.rows.size(), bytes});
            sequence.rows.push_back({0, 0});
            return;
        }
        sequence.rows.push_back({found->second, 0});
        out_.erase(found);
    }

    /* Each open free gets a block of its size that is left at the end, of equal ones the one taken last: gradients are
     * made from the last layer to the first and dropped from the first to the last. */
    void close_cycle()
    {
        sequence.ids = uint32_t(bytes_.size());
        if (open_.empty())
            return;
        std::map<uint64_t, std::vector<uint32_t>> left;
        for (const auto &[id, number] : out_)
            left[bytes_[number]].push_back(number); /* ids are in the order in which they were taken */
        for (const Open &free : open_) {
            std::vector<uint32_t> &alike = left[free.bytes];
            if (alike.empty())
                give_up("it gives back other blocks than it leaves");
            sequence.rows[free.row].id = alike.back();
            alike.pop_back();
        }
        for (const auto &[id, number] : out_)
            sequence.carried.push_back({number, bytes_[number]});
    }

    void find_peak()
    {
        uint64_t live = 0;
        for (const std::vector<Row> *rows : {&sequence.carried, &sequence.rows})
            for (const Row &row : *rows) {
                live += row.bytes != 0 ? row.bytes : -bytes_[row.id];
                sequence.peak_requested = std::max(sequence.peak_requested, live);
            }
    }

    const char *path_;
    std::vector<uint64_t> bytes_;      /* by our numbers, which are in the order of the rows */
    std::map<uint32_t, uint32_t> out_; /* our numbers of blocks that are out, by the file's id */
    std::vector<Open> open_;
};

inline Sequence read_sequence(const std::string &path)
{
    return SequenceReader(path.c_str()).sequence;
}

} // namespace bench
