/* The data structures shared by the allocator's files, and the tiling of segments by blocks. Private to this folder.
 *
 *   oldest ─▶ segment 0 ─▶ segment 1 ─▶ …                  in order of birth
 *                │
 *              first ─▶ out ⇄ free ⇄ out ⇄ hole ◀─ last    blocks tile the segment, in order of offset
 *
 *   ├──────── block ────────┤   split   ├─ block ─┼─── rest ───┤
 *   ├─ block ─┼─── after ───┤   absorb  ├──────── block ────────┤
 *
 * A segment is reserved in one piece, or is a range of addresses. In a range, addresses without memory are a hole.
 *
 * Both policies share the tiling (here), segments in one piece and users (segment.c), ranges (range.c), and counters
 * and events (alloc.c). A policy chooses sizes, finds free blocks, splits them, and maintains the index of free blocks
 * (torch_policy.c, tight_policy.c). While a plan is followed, follow.c is called before the policy.
 *
 * The tiling is inline, because it is most of the work on a block: a policy compiles it together with its index. Rare
 * paths are marked cold, here and in base/lock.h: if a compiler inlined them, every event would save registers for
 * them, which took a tenth of its time.
 *
 * Everything here requires the allocator's lock, except in create and destroy. */
#pragma once

#include "alloc/address_space.h"
#include "alloc/alloc_settings.h"
#include "alloc/alloc_stats.h"
#include "alloc/stream_rules.h"
#include "base/lock.h"
#include "base/order.h"
#include "base/sink.h"
#include "device/device.h"

#include <assert.h>
#include <stdatomic.h>

enum {
    MT_BLOCK_UNIT = 512,              /* offsets and sizes of blocks are multiples of this */
    MT_SEGMENT_UNIT = MT_DEVICE_PAGE, /* sizes of segments, and offsets and sizes of holes, are multiples of this */
};

struct mt_alloc;
struct mt_alloc_request;

/* Another stream that uses a block. */
struct mt_user {
    struct mt_user *next;
    mt_stream stream;
};

/* A part of a segment: out (allocated), free, or a hole.
 * Invariants (mt_block_is_sound asserts those of one block): offset and bytes are multiples of MT_BLOCK_UNIT, and for a
 * hole of MT_SEGMENT_UNIT; before->offset + before->bytes == offset; of two neighbours at most one is free, and at most
 * one is a hole; a block that is out has 0 < requested_bytes <= bytes; a free block is in the policy's index exactly
 * once, a hole never. */
struct mt_block {
    uint64_t bytes;
    uint64_t offset; /* in the segment */
    struct mt_segment *segment;
    struct mt_block *before, *after; /* neighbours in the segment; NULL at its ends */
    union {
        struct mt_block *link[2]; /* while free: for the policy's index; while spare or waiting: [0] is the next one */
        struct {
            uint64_t sequence; /* while out: of its alloc event */
            uint64_t border;   /* in a plan's arena, while out or free: see follow.c */
        };
    };
    union {
        uint64_t requested_bytes; /* while out */
        uint64_t freed_at;        /* while free, torch: the number of searches in its pool until it was freed */
    };
    struct mt_user *users; /* while out or waiting: other streams that use it, without duplicates */
    uint32_t priority;     /* in a tree: random, constant for the structure */
    mt_label_id label;     /* while out */
    mt_span_id span;       /* while out */
    bool is_free;          /* neither out nor a hole */
    bool is_waiting;       /* freed during a capture: counts as out only for the tiling */
    bool is_hole;          /* without memory */
};

/* Memory that was reserved from the device in one piece, or a range of addresses with memory for parts of it.
 * Invariants: bytes is a multiple of MT_SEGMENT_UNIT; first->offset == 0; the blocks tile it; births are unique and
 * ascend along the list; mapped_bytes is the sum of the blocks that are not holes, and above 0; `holes` counts the
 * holes, and is 0 unless is_range. */
struct mt_segment {
    mt_addr address;
    uint64_t place;        /* among all segments, from address_space.h */
    uint64_t bytes;        /* of addresses */
    uint64_t mapped_bytes; /* with memory */
    uint64_t unit_bytes;   /* of a range's growth, a multiple of MT_SEGMENT_UNIT */
    struct mt_block *first, *last;
    struct mt_segment *older, *newer;
    void *free_lists; /* tight: the size classes of its free blocks; NULL until first used */
    uint32_t birth;
    uint32_t holes;
    mt_stream stream;
    mt_pool pool;
    bool is_range;
};

/* Structures for reuse. Host memory is allocated in chunks, never for a single block.
 * Invariant: chunks live until the allocator is destroyed, so a structure never moves. */
struct mt_block_store {
    struct mt_block *spare;
    struct mt_block **chunks;
    uint32_t chunk_count;
    struct mt_segment *spare_segment; /* linked by `newer` */
    struct mt_user *spare_user;
};

/* The part of a free block to allocate. Invariant: skip + bytes is at most the block's bytes. */
struct mt_block_part {
    uint64_t skip; /* bytes that stay free before it */
    uint64_t bytes;
};

/* The functions of a policy. `index` is the result of its create function. */
struct mt_policy_table {
    uint64_t small_limit_bytes; /* rounded requests up to this size use the small pool */

    void *(*create)(void);
    void (*destroy)(void *index);

    /* Sets *out_bytes to the size of the block for a request (it is larger if the rest is not split off); false if that
     * overflows. */
    bool (*round)(const struct mt_alloc_settings *settings, uint64_t requested_bytes, uint64_t *out_bytes);

    /* Sets *out_bytes to the size of the smallest segment for a rounded request; false if that overflows. */
    bool (*least_segment)(const struct mt_alloc_settings *settings, uint64_t bytes, uint64_t *out_bytes);

    /* Removes the free block that fits best from the index, splits off what a request of `bytes` does not need, and
     * returns it; NULL if none fits. */
    struct mt_block *(*take)(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label);

    /* The same with new memory from the device, after releasing memory if the policy requires it. NULL if the device
     * has no more: alloc->failure is the reason. */
    struct mt_block *(*grow)(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label);

    /* Coalesces a free block outside the index with its free neighbours, adds the result to the index and returns
     * it. */
    struct mt_block *(*give)(struct mt_alloc *alloc, struct mt_block *block);

    /* Add a block to the index, and remove it. */
    void (*insert)(struct mt_alloc *alloc, struct mt_block *block);
    void (*remove)(struct mt_alloc *alloc, struct mt_block *block);

    /* True if a search in the index finds the free block. For tests: may take long. */
    bool (*holds)(const struct mt_alloc *alloc, const struct mt_block *block);

    /* Returns a hash of all state outside the tiling that affects which block is found next. */
    uint64_t (*fingerprint)(const struct mt_alloc *alloc);

    /* Checks the consistency of the index, and counts its blocks. Fails with MT_FAILED and the first difference. */
    mt_status (*check)(const struct mt_alloc *alloc, uint64_t *out_blocks);
};

extern const struct mt_policy_table mt_policy_torch, mt_policy_tight;

/* Invariants: stats.reserved_bytes is the sum of mapped_bytes over the segments, and stats.segments their number;
 * next_sequence is the number of events so far; start_ns <= last_ns, which never decreases. */
struct mt_alloc {
    struct mt_biased_lock lock; /* guards everything below, the sink and its interner */
    const struct mt_policy_table *policy;
    void *index; /* the policy's */
    struct mt_device *device;
    struct mt_sink sink;
    struct mt_alloc_settings settings;
    uint64_t start_ns;              /* the device's clock at the creation; times of events are relative to it */
    uint64_t last_ns;               /* the time of the sink's last event, since the clocks of threads differ slightly */
    _Atomic uint64_t next_sequence; /* written under the lock, read without */
    uint32_t next_birth;
    mt_status failure; /* of the device, for the current request; only read if the request is refused */
    struct mt_segment *oldest, *newest;
    struct mt_address_space places; /* of the segments */
    struct mt_block_store store;
    struct mt_follower *follower;  /* of a plan (follow.h); NULL: none */
    struct mt_stream_rules *rules; /* by stream, below rule_count */
    uint32_t rule_count;
    uint32_t captures;           /* in progress */
    struct mt_block *waiting;    /* blocks, the last freed first */
    struct mt_alloc_stats stats; /* largest_free_bytes and max_split_bytes are computed on demand */
};

/* True if the counters and the list of segments satisfy these invariants, as far as checked in constant time: for
 * asserts. */
static inline bool mt_alloc_is_sound(const struct mt_alloc *alloc)
{
    const struct mt_alloc_stats *stats = &alloc->stats;
    return stats->all.allocated_bytes <= stats->reserved_bytes && stats->reserved_bytes <= stats->peak_reserved_bytes &&
           stats->segments <= alloc->next_birth && (stats->segments == 0) == (alloc->oldest == NULL) &&
           stats->reserved_bytes % MT_SEGMENT_UNIT == 0 && (alloc->oldest == NULL) == (alloc->newest == NULL);
}

/* Emits `event` with the next sequence and the device's time, or the time of the last event if that is later. */
void mt_alloc_emit(struct mt_alloc *alloc, struct mt_event *event);

/* Count a block that was just allocated, one that was freed by its owner, and the same one when it is about to be free,
 * by pool (alloc_view.c). */
void mt_pool_count_out(struct mt_alloc *alloc, const struct mt_block *block);
void mt_pool_count_back(struct mt_alloc *alloc, const struct mt_block *block);
void mt_pool_count_free(struct mt_alloc *alloc, const struct mt_block *block);

/* ---- private pools (private_pool.c) ---- */

static inline struct mt_stream_rules mt_rules_of(const struct mt_alloc *alloc, mt_stream stream)
{
    return stream < alloc->rule_count ? alloc->rules[stream] : (struct mt_stream_rules){0};
}

/* True if the cached memory of a stream may be returned to the device now. */
static inline bool mt_is_releasable(const struct mt_alloc *alloc, mt_stream stream)
{
    const struct mt_stream_rules rules = mt_rules_of(alloc, stream);
    return !rules.is_kept && (alloc->captures == 0 || rules.is_private);
}

/* Makes a freed block with users wait for the end of the captures. */
void mt_block_wait(struct mt_alloc *alloc, struct mt_block *block);

/* Frees the waiting blocks, unless a capture is in progress. */
__attribute__((cold, noinline)) void mt_blocks_end_waiting(struct mt_alloc *alloc);

/* Returns a freed block to the policy after it was counted. Its stream first waits for its users. */
void mt_block_free(struct mt_alloc *alloc, struct mt_block *block);

/* Assigns a block, which is in no index, to a request, and emits its event. */
void mt_block_hand_out(struct mt_alloc *alloc, struct mt_block *block, const struct mt_alloc_request *request);

/* Returns a free block for a refused request of `stream` from a stream that lends, cut to size and not in the index;
 * NULL if there is none. */
__attribute__((cold, noinline)) struct mt_block *mt_block_borrow(struct mt_alloc *alloc, mt_stream stream,
                                                                 uint64_t bytes, mt_label_id label);

/* ---- segments (segment.c) ---- */

/* Returns the bytes of a segment or block, rounded up to MT_SEGMENT_UNIT, which never overflows. */
static inline uint64_t mt_whole_pages(uint64_t bytes)
{
    assert(bytes <= UINT64_MAX - MT_SEGMENT_UNIT);
    return (bytes + MT_SEGMENT_UNIT - 1) / MT_SEGMENT_UNIT * MT_SEGMENT_UNIT;
}

/* Returns `bytes`, rounded up to a multiple of the range's unit. */
static inline uint64_t mt_whole_units(const struct mt_segment *range, uint64_t bytes)
{
    assert(range->is_range && range->unit_bytes % MT_SEGMENT_UNIT == 0 && bytes <= UINT64_MAX - range->unit_bytes);
    return (bytes + range->unit_bytes - 1) / range->unit_bytes * range->unit_bytes;
}

/* True if a segment is in one piece and entirely free. */
static inline bool mt_segment_is_idle(const struct mt_segment *segment)
{
    return !segment->is_range && segment->first->is_free && segment->first->bytes == segment->bytes;
}

/* Reserves a segment and emits its event. Returns its only block, free and not in the index; NULL if the device
 * refuses: alloc->failure is the reason. */
struct mt_block *mt_segment_map(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes);

/* Returns an idle segment in one piece, whose block is in the index, to the device and emits its event. */
void mt_segment_unmap(struct mt_alloc *alloc, struct mt_segment *segment);

/* Add a segment without memory, with one block: a hole if like->is_range, otherwise free. And remove one, without an
 * event. */
struct mt_segment *mt_segment_add(struct mt_alloc *alloc, const struct mt_segment *like);
void mt_segment_drop(struct mt_alloc *alloc, struct mt_segment *segment);

/* Count `bytes` at `offset` that got or lost memory, and emit the event. */
void mt_segment_count_mapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes);
void mt_segment_count_unmapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes);

/* Returns cached memory to the device until `bytes` are returned: idle segments and the free pages of ranges, oldest
 * first, ranges from their end. Returns the bytes. */
uint64_t mt_segments_release(struct mt_alloc *alloc, uint64_t bytes);

/* ---- ranges (range.c) ---- */

/* Maps memory to a range of the stream and pool until one of its free blocks has `bytes`. Chooses the place that lacks
 * the fewest pages, which is the range's end unless pages were released. If no range has room, opens a new one, which
 * grows by units of unit_bytes. Returns the block, not in the index; NULL if the device refuses: alloc->failure is the
 * reason. */
struct mt_block *mt_range_grow(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes,
                               uint64_t unit_bytes);

/* Returns free whole units of a range to the device, from its end on, until `bytes` are returned. The range ends with
 * its last page. Returns the bytes. */
uint64_t mt_range_release(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t bytes);

/* ---- blocks ---- */

/* Allocates host memory for more structures. None is spare. */
__attribute__((cold, noinline)) void mt_block_store_grow(struct mt_block_store *store);
void mt_block_store_destroy(struct mt_block_store *store);

/* Makes the block's own stream wait for the queued work of its users, and removes them. */
__attribute__((cold, noinline)) void mt_block_wait_for_users(struct mt_alloc *alloc, struct mt_block *block);
void mt_block_remove_users(struct mt_alloc *alloc, struct mt_block *block);

/* Compares two blocks by bytes, then the segment's place, then offset. Returns -1, 0 or 1. */
static inline int mt_block_compare(const struct mt_block *a, const struct mt_block *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->segment->place != b->segment->place)
        return a->segment->place < b->segment->place ? -1 : 1;
    return MT_COMPARE(a->offset, b->offset);
}

/* True if a block has a valid size and state and begins at the end of the previous block: for asserts, in constant
 * time. */
static inline bool mt_block_is_sound(const struct mt_block *block)
{
    const struct mt_segment *segment = block->segment;
    const struct mt_block *before = block->before, *after = block->after;
    uint64_t unit = block->is_hole ? MT_SEGMENT_UNIT : MT_BLOCK_UNIT, end = block->offset + block->bytes;
    bool begins = before != NULL ? before->after == block && before->offset + before->bytes == block->offset
                                 : segment->first == block && block->offset == 0;
    bool ends = after != NULL ? after->before == block && after->offset == end
                              : segment->last == block && end == segment->bytes;
    return begins && ends && block->bytes > 0 && block->bytes % unit == 0 && block->offset % unit == 0 &&
           !(block->is_free && block->is_hole) && (!block->is_hole || segment->is_range);
}

/* True if both neighbours of a block are not free, so that it is fully coalesced: for asserts. */
static inline bool mt_block_is_coalesced(const struct mt_block *block)
{
    return (block->before == NULL || !block->before->is_free) && (block->after == NULL || !block->after->is_free);
}

/* True if a block is allocated: for asserts. */
static inline bool mt_block_is_out(const struct mt_block *block)
{
    return block->segment != NULL && !block->is_free && !block->is_hole && !block->is_waiting &&
           block->requested_bytes > 0 && block->requested_bytes <= block->bytes;
}

/* A policy's insert or remove. */
typedef void mt_index_change(struct mt_alloc *alloc, struct mt_block *block);

/* Returns an unlinked block, neither free nor a hole. It is set field by field, since clearing the whole structure
 * takes longer than the rest of a split. */
static inline struct mt_block *mt_block_create(struct mt_block_store *store, struct mt_segment *segment,
                                               uint64_t offset, uint64_t bytes)
{
    assert(bytes > 0 && offset + bytes <= segment->bytes);
    if (store->spare == NULL)
        mt_block_store_grow(store);
    struct mt_block *block = store->spare;
    assert(block->segment == NULL); /* it is a spare one */
    store->spare = block->link[0];
    block->bytes = bytes;
    block->offset = offset;
    block->segment = segment;
    block->before = block->after = NULL;
    block->users = NULL;
    block->is_free = block->is_hole = block->is_waiting = false;
    return block;
}

static inline void mt_block_destroy(struct mt_block_store *store, struct mt_block *block)
{
    assert(block->segment != NULL && block->users == NULL);
    block->segment = NULL;
    block->link[0] = store->spare;
    store->spare = block;
}

/* Cuts `block` to `bytes` and returns the rest, with the same state: free and not in the index, or a hole. */
static inline struct mt_block *mt_block_split(struct mt_alloc *alloc, struct mt_block *block, uint64_t bytes)
{
    struct mt_segment *segment = block->segment;
    assert(bytes > 0 && bytes < block->bytes && (block->is_free || block->is_hole));
    struct mt_block *rest = mt_block_create(&alloc->store, segment, block->offset + bytes, block->bytes - bytes);
    rest->is_free = block->is_free;
    rest->is_hole = block->is_hole;
    segment->holes += block->is_hole;
    block->bytes = bytes;
    rest->before = block;
    rest->after = block->after;
    if (rest->after != NULL)
        rest->after->before = rest;
    else
        segment->last = rest;
    block->after = rest;
    assert(mt_block_is_sound(block) && mt_block_is_sound(rest));
    return rest;
}

/* Cuts a part out of a free block outside the index, and adds the rest on either side to the index. Returns the
 * part. */
static inline struct mt_block *mt_block_cut(struct mt_alloc *alloc, struct mt_block *block, struct mt_block_part part,
                                            mt_index_change *insert)
{
    assert(block->is_free && part.bytes > 0 && part.skip + part.bytes <= block->bytes);
    if (part.skip > 0) {
        struct mt_block *before = block;
        block = mt_block_split(alloc, before, part.skip);
        insert(alloc, before);
    }
    if (block->bytes > part.bytes)
        insert(alloc, mt_block_split(alloc, block, part.bytes));
    return block;
}

/* Adds the bytes of the block after `block` to it, and destroys that block. Both are free and not in the index, or
 * holes. */
static inline void mt_block_absorb_after(struct mt_alloc *alloc, struct mt_block *block)
{
    struct mt_block *after = block->after;
    assert(after->before == block && after->is_free == block->is_free && after->is_hole == block->is_hole);
    block->segment->holes -= after->is_hole;
    block->bytes += after->bytes;
    block->after = after->after;
    if (block->after != NULL)
        block->after->before = block;
    else
        block->segment->last = block;
    mt_block_destroy(&alloc->store, after);
    assert(mt_block_is_sound(block));
}

/* Coalesces a free block outside the index with its free neighbours, which are removed from the index; returns the
 * result. */
static inline struct mt_block *mt_block_merge(struct mt_alloc *alloc, struct mt_block *block, mt_index_change *remove)
{
    assert(block->is_free && mt_block_is_sound(block));
    if (block->after != NULL && block->after->is_free) {
        remove(alloc, block->after);
        mt_block_absorb_after(alloc, block);
    }
    if (block->before != NULL && block->before->is_free) {
        block = block->before;
        remove(alloc, block);
        mt_block_absorb_after(alloc, block);
    }
    assert(mt_block_is_coalesced(block));
    return block;
}
