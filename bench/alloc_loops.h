/* Measurements of a caching allocator, ours or a peer's: pairs of taking a block and giving it back, and replays of a
 * sequence of requests. Peers and ours are measured by the same loops.
 *
 * Relies on the C++ library alone, so that a peer can be built where its library is. An allocator is a class with
 * `take(bytes)`, which returns a handle, and `give(handle)`. */
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace bench
{

/* A request, or with 0 bytes the giving back of what `id` stands for. */
struct Row {
    uint32_t id;
    uint64_t bytes;
};

/* Rows that can be replayed again and again: what `carried` rows take before the first time is what each time gives
 * back of the time before. */
struct Sequence {
    std::vector<Row> carried, rows;
    uint32_t ids = 0;            /* above every id */
    uint64_t peak_requested = 0; /* live at once, of one replay */
};

inline double now_ns()
{
    using namespace std::chrono;
    return double(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

/* Nanoseconds of a block taken and given back. */
template <class Allocator> double pair_ns(Allocator &allocator, uint64_t bytes, int pairs)
{
    double start = now_ns();
    for (int i = 0; i < pairs; i++)
        allocator.give(allocator.take(bytes));
    return (now_ns() - start) / pairs;
}

/* Writes the sequence into a file for a peer: `ids`, the counts of rows of both kinds, then the rows. load_sequence
 * reads it. Both return false if they fail. */
inline bool write_sequence(const Sequence &sequence, const char *path)
{
    const uint64_t head[] = {sequence.ids, sequence.carried.size(), sequence.rows.size()};
    FILE *file = fopen(path, "wb");
    if (file == nullptr)
        return false;
    bool good = fwrite(head, sizeof head, 1, file) == 1;
    for (const std::vector<Row> *rows : {&sequence.carried, &sequence.rows})
        good = fwrite(rows->data(), sizeof(Row), rows->size(), file) == rows->size() && good;
    return fclose(file) == 0 && good;
}

inline bool load_sequence(const char *path, Sequence &sequence)
{
    uint64_t head[3];
    FILE *file = fopen(path, "rb");
    if (file == nullptr)
        return false;
    bool good = fread(head, sizeof head, 1, file) == 1;
    if (good) {
        sequence.ids = uint32_t(head[0]);
        sequence.carried.resize(head[1]);
        sequence.rows.resize(head[2]);
    }
    for (std::vector<Row> *rows : {&sequence.carried, &sequence.rows})
        good = good && fread(rows->data(), sizeof(Row), rows->size(), file) == rows->size();
    fclose(file);
    return good;
}

/* A sequence under way in one allocator. */
template <class Allocator> class Replay
{
  public:
    Replay(Allocator &allocator, const Sequence &sequence)
        : allocator_(allocator), sequence_(sequence), handles_(sequence.ids), is_out_(sequence.ids)
    {
        run(sequence.carried);
    }

    /* Nanoseconds of an event, of so many times all over. */
    double event_ns(int times)
    {
        double start = now_ns();
        for (int i = 0; i < times; i++)
            run(sequence_.rows);
        return (now_ns() - start) / times / double(sequence_.rows.size());
    }

    ~Replay()
    {
        for (size_t id = 0; id < handles_.size(); id++)
            if (is_out_[id])
                allocator_.give(handles_[id]);
    }

  private:
    void run(const std::vector<Row> &rows)
    {
        for (const Row &row : rows) {
            if (row.bytes != 0)
                handles_[row.id] = allocator_.take(row.bytes);
            else
                allocator_.give(handles_[row.id]);
            is_out_[row.id] = row.bytes != 0;
        }
    }

    Allocator &allocator_;
    const Sequence &sequence_;
    std::vector<decltype(allocator_.take(1))> handles_;
    std::vector<char> is_out_;
};

/* Nanoseconds of an event of the sequence in a file, replayed so many times to warm up, then so many times; NAN if
 * there is none. Everything is given back. */
template <class Allocator> double file_event_ns(Allocator &allocator, const char *path, int warm_up, int times)
{
    Sequence sequence;
    if (!load_sequence(path, sequence))
        return NAN;
    Replay<Allocator> replay(allocator, sequence);
    if (warm_up > 0)
        replay.event_ns(warm_up);
    return replay.event_ns(times);
}

} // namespace bench
