/* A best-fit caching allocator over std::set, built as PyTorch's is: ordered sets of free blocks, a hash set of those
 * that are out, one recursive lock. The peer where there is no card, on which PyTorch's own could run. */
#pragma once

#include "bench/alloc_ours.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_set>

namespace bench
{

struct SetBlock;
struct SetOrder {
    bool operator()(const SetBlock *a, const SetBlock *b) const;
};
using FreeSet = std::set<SetBlock *, SetOrder>;

struct SetBlock {
    int stream;
    uint64_t size;
    FreeSet *pool;
    mt_addr address;
    SetBlock *before, *after;
    bool is_out;
};

inline bool SetOrder::operator()(const SetBlock *a, const SetBlock *b) const
{
    if (a->stream != b->stream)
        return a->stream < b->stream;
    return a->size != b->size ? a->size < b->size : a->address < b->address;
}

class SetAllocator
{
  public:
    explicit SetAllocator(mt_device *device) : device_(device)
    {
    }

    SetBlock *take(uint64_t bytes)
    {
        std::lock_guard<std::recursive_mutex> guard(mutex_);
        uint64_t size = (bytes + 511) / 512 * 512;
        FreeSet *pool = size <= MIB ? &small_ : &large_;
        SetBlock key{0, size, pool, 0, nullptr, nullptr, false};
        auto found = pool->lower_bound(&key);
        SetBlock *block = nullptr;
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

    void give(SetBlock *block)
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

    ~SetAllocator()
    {
        for (FreeSet *pool : {&small_, &large_})
            for (SetBlock *block : *pool)
                delete block;
        for (SetBlock *block : out_)
            delete block;
    }

  private:
    SetBlock *reserve(uint64_t size, FreeSet *pool)
    {
        uint64_t bytes = size <= MIB       ? 2 * MIB
                         : size < 10 * MIB ? 20 * MIB
                                           : (size + 2 * MIB - 1) / (2 * MIB) * 2 * MIB;
        mt_addr address;
        expect(mt_device_reserve(device_, bytes, &address), "the set allocator");
        reserved_ += bytes;
        return new SetBlock{0, bytes, pool, address, nullptr, nullptr, false};
    }

    static void split(SetBlock *block, uint64_t size)
    {
        auto *rest = new SetBlock{block->stream, block->size - size, block->pool, block->address + size,
                                  block,         block->after,       false};
        if (rest->after)
            rest->after->before = rest;
        block->after = rest;
        block->size = size;
        block->pool->insert(rest);
    }

    /* `block` takes in its neighbour `other`, if that is free. */
    static void merge(SetBlock *block, SetBlock *other)
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
    FreeSet small_, large_;
    std::unordered_set<SetBlock *> out_;
    uint64_t reserved_ = 0, allocated_ = 0, peak_allocated_ = 0;
};

} // namespace bench
