/* The structures of an allocator that its files share, and the tiling of segments by blocks. Nothing outside of this folder
 * includes this file.
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
 * Both policies share the tiling (here), segments in one piece and users (segment.c), ranges (range.c), and counters and
 * events (alloc.c). A policy chooses sizes, finds free blocks, splits them, and keeps the index of them (torch_policy.c,
 * tight_policy.c). While a plan is followed, follow.c puts itself before the policy.
 *
 * The tiling is inline, because it is most of the work on a block: a policy compiles it together with its index. Rare paths
 * are marked cold, here and in base/lock.h: where a compiler inlines them, it saves registers for them in every event,
 * which took a tenth of an event.
 *
 * Everything here is called with the allocator's lock held, except by create and destroy. */
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

/* A part of a segment: out, free, or a hole.
 * Invariants (mt_block_is_sound asserts those of one block): offset and bytes are multiples of MT_BLOCK_UNIT, of a hole of
 * MT_SEGMENT_UNIT; before->offset + before->bytes == offset; of two neighbours at most one is free, and at most one is a
 * hole; a block that is out has 0 < requested_bytes <= bytes; a free block is in the policy's index exactly once, a hole
 * never. */
struct mt_block {
    uint64_t bytes;
    uint64_t offset; /* in the segment */
    struct mt_segment *segment;
    struct mt_block *before, *after; /* neighbours in the segment; NULL at its ends */
    union {
        struct mt_block
            *link[2]; /* while free: for the policy's index; while spare or waiting: [0] is the next such one */
        struct {
            uint64_t sequence; /* while out: of its alloc event */
            uint64_t border;   /* in a plan's arena, out or free: see follow.c */
        };
    };
    union {
        uint64_t requested_bytes; /* while out */
        uint64_t freed_at;        /* while free, torch: the number of searches in its pool until then */
    };
    struct mt_user *users; /* while out or waiting: other streams that use it, each once */
    uint32_t priority;     /* in a tree: random, fixed for the life of the structure */
    mt_label_id label;     /* while out */
    mt_span_id span;       /* while out */
    bool is_free;          /* neither out nor a hole */
    bool is_waiting;       /* freed during a capture: counts as out for the tiling, and for nothing else */
    bool is_hole;          /* without memory */
};

/* Memory that was reserved from the device in one piece, or a range of addresses with memory under parts of it.
 * Invariants: bytes is a multiple of MT_SEGMENT_UNIT; first->offset == 0; the blocks tile it; births are unique and ascend
 * along the list; mapped_bytes is the sum of the blocks that are no holes, and above 0; `holes` counts the holes, of which
 * there are none unless is_range. */
struct mt_segment {
    mt_addr address;
    uint64_t place;        /* among all segments, as address_space.h orders them */
    uint64_t bytes;        /* of addresses */
    uint64_t mapped_bytes; /* with memory */
    uint64_t unit_bytes;   /* of a range: it grows and shrinks by multiples of this, of MT_SEGMENT_UNIT itself */
    struct mt_block *first, *last;
    struct mt_segment *older, *newer;
    void *free_lists; /* tight: the size classes of its free blocks; NULL until they are looked up */
    uint32_t birth;
    uint32_t holes;
    mt_stream stream;
    mt_pool pool;
    bool is_range;
};

/* Structures to be used again. Host memory is taken in chunks, never for a single block.
 * Invariant: chunks live until the allocator is destroyed, so a structure never moves. */
struct mt_block_store {
    struct mt_block *spare;
    struct mt_block **chunks;
    uint32_t chunk_count;
    struct mt_segment *spare_segment; /* linked by `newer` */
    struct mt_user *spare_user;
};

/* The part of a free block that is handed out. Invariant: skip + bytes is at most the block's bytes. */
struct mt_block_part {
    uint64_t skip; /* bytes that stay free before it */
    uint64_t bytes;
};

/* The functions of a policy. `index` is the result of its create. */
struct mt_policy_table {
    uint64_t small_limit_bytes; /* rounded requests up to this size belong to the small pool */

    void *(*create)(void);
    void (*destroy)(void *index);

    /* Sets *out_bytes to the size of the block for a request (it gets more if the rest is not split off); false if that
     * overflows. */
    bool (*round)(const struct mt_alloc_settings *settings, uint64_t requested_bytes, uint64_t *out_bytes);

    /* Sets *out_bytes to the size of the least segment for a rounded request; false if that overflows. */
    bool (*least_segment)(const struct mt_alloc_settings *settings, uint64_t bytes, uint64_t *out_bytes);

    /* Takes the free block that fits best out of the index, splits off what is not needed for a request of `bytes`, and
     * returns it; NULL if none fits. */
    struct mt_block *(*take)(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label);

    /* The same from new memory of the device, after releasing whatever has to go first. NULL if the device has no more:
     * alloc->failure is the reason. */
    struct mt_block *(*grow)(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label);

    /* Coalesces a free block that is not in the index with its free neighbours, puts the result there and returns it. */
    struct mt_block *(*give)(struct mt_alloc *alloc, struct mt_block *block);

    /* Put one block into the index, and take it out. */
    void (*insert)(struct mt_alloc *alloc, struct mt_block *block);
    void (*remove)(struct mt_alloc *alloc, struct mt_block *block);

    /* True if a search in the index would find a free block. For tests: may take long. */
    bool (*holds)(const struct mt_alloc *alloc, const struct mt_block *block);

    /* Returns a number for all the state, beyond the tiling, that decides which block is found next. */
    uint64_t (*fingerprint)(const struct mt_alloc *alloc);

    /* Compares the index with itself, and counts its blocks. Fails with MT_FAILED and the first difference. */
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
    uint64_t start_ns;              /* the device's clock at the creation; times of events count from there */
    uint64_t last_ns;               /* and at the last event for the sink: the clocks of threads differ a little */
    _Atomic uint64_t next_sequence; /* written under the lock, read without it */
    uint32_t next_birth;
    mt_status failure; /* of the device, for the request being served; only read if that is refused */
    struct mt_segment *oldest, *newest;
    struct mt_address_space places; /* of the segments */
    struct mt_block_store store;
    struct mt_follower *follower;  /* of a plan (follow.h); NULL: there is none */
    struct mt_stream_rules *rules; /* by stream; none beyond rule_count */
    uint32_t rule_count;
    uint32_t captures;           /* under way */
    struct mt_block *waiting;    /* blocks, the last given first */
    struct mt_alloc_stats stats; /* largest_free_bytes and max_split_bytes are set on demand */
};

/* True if the counters and the list of segments have these invariants, as far as a check in constant time can find: for asserts. */
static inline bool mt_alloc_is_sound(const struct mt_alloc *alloc)
{
    const struct mt_alloc_stats *stats = &alloc->stats;
    return stats->all.allocated_bytes <= stats->reserved_bytes && stats->reserved_bytes <= stats->peak_reserved_bytes &&
           stats->segments <= alloc->next_birth && (stats->segments == 0) == (alloc->oldest == NULL) &&
           stats->reserved_bytes % MT_SEGMENT_UNIT == 0 && (alloc->oldest == NULL) == (alloc->newest == NULL);
}

/* Emits `event` with the next sequence and the device's time, or the time of the last event if that is later. */
void mt_alloc_emit(struct mt_alloc *alloc, struct mt_event *event);

/* Count a block that was just handed out, one that was freed by its owner, and the same one when it is about to be free, by pool
 * (alloc_view.c). */
void mt_pool_count_out(struct mt_alloc *alloc, const struct mt_block *block);
void mt_pool_count_back(struct mt_alloc *alloc, const struct mt_block *block);
void mt_pool_count_free(struct mt_alloc *alloc, const struct mt_block *block);

/* ---- private pools (private_pool.c) ---- */

static inline struct mt_stream_rules mt_rules_of(const struct mt_alloc *alloc, mt_stream stream)
{
    return stream < alloc->rule_count ? alloc->rules[stream] : (struct mt_stream_rules){0};
}

/* True if the cached memory of a stream may go back to the device now. */
static inline bool mt_is_releasable(const struct mt_alloc *alloc, mt_stream stream)
{
    const struct mt_stream_rules rules = mt_rules_of(alloc, stream);
    return !rules.is_kept && (alloc->captures == 0 || rules.is_private);
}

/* Makes a freed block that has users wait for the end of the captures. */
void mt_block_wait(struct mt_alloc *alloc, struct mt_block *block);

/* Frees the waiting blocks, unless a capture is under way. */
__attribute__((cold, noinline)) void mt_blocks_end_waiting(struct mt_alloc *alloc);

/* Returns a freed block to the policy once it is counted: its stream waits for its users first. */
void mt_block_free(struct mt_alloc *alloc, struct mt_block *block);

/* Makes a block, which is in no index, the one of a request, and emits its event. */
void mt_block_hand_out(struct mt_alloc *alloc, struct mt_block *block, const struct mt_alloc_request *request);

/* Returns a free block for a refused request of `stream`, cut to size and not in the index, from a stream that lends; NULL if there
 * is none. */
__attribute__((cold, noinline)) struct mt_block *mt_block_borrow(struct mt_alloc *alloc, mt_stream stream,
                                                                 uint64_t bytes, mt_label_id label);

/* ---- segments (segment.c) ---- */

/* Returns `bytes`, rounded up to MT_SEGMENT_UNIT: of a segment or a block, for which that never overflows. */
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

/* True if a segment is in one piece, and that one free block. */
static inline bool mt_segment_is_idle(const struct mt_segment *segment)
{
    return !segment->is_range && segment->first->is_free && segment->first->bytes == segment->bytes;
}

/* Reserves a segment and emits its event. Returns its one block, free and not in the index; NULL if the device refuses:
 * alloc->failure is the reason. */
struct mt_block *mt_segment_map(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes);

/* Gives an idle segment in one piece, whose block is in the index, back to the device and emits its event. */
void mt_segment_unmap(struct mt_alloc *alloc, struct mt_segment *segment);

/* Adds a segment without memory: one block, a hole if like->is_range and else free. And removes one, without an event. */
struct mt_segment *mt_segment_add(struct mt_alloc *alloc, const struct mt_segment *like);
void mt_segment_drop(struct mt_alloc *alloc, struct mt_segment *segment);

/* Count `bytes` at `offset` that got memory, or lost it, and emit the event. */
void mt_segment_count_mapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes);
void mt_segment_count_unmapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes);

/* Gives cached memory back to the device until it amounts to `bytes`: idle segments and the free pages of ranges, oldest
 * first, ranges from their end. Returns the bytes given back. */
uint64_t mt_segments_release(struct mt_alloc *alloc, uint64_t bytes);

/* ---- ranges (range.c) ---- */

/* Maps memory to a range of the stream and pool until one of its free blocks has `bytes`. The place is the one that lacks
 * the fewest pages, which is the range's end unless pages were given back. Opens a new range, which grows by units of
 * unit_bytes, where none has the room. Returns the block, not in the index; NULL if the device refuses: alloc->failure is
 * the reason. */
struct mt_block *mt_range_grow(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes,
                               uint64_t unit_bytes);

/* Gives free whole units of a range back to the device, from its end on, until they amount to `bytes`. The range ends with
 * its last page. Returns the bytes given back. */
uint64_t mt_range_release(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t bytes);

/* ---- blocks ---- */

/* Takes host memory for more structures, of which none is spare. */
__attribute__((cold, noinline)) void mt_block_store_grow(struct mt_block_store *store);
void mt_block_store_destroy(struct mt_block_store *store);

/* Makes the block's own stream wait for the work that its users have queued, and removes them. */
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

/* True if a block has a valid size and state and begins where the block before it ends: for asserts, in constant time. */
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

/* True if no neighbour of a block is free, so that coalescing it is done: for asserts. */
static inline bool mt_block_is_coalesced(const struct mt_block *block)
{
    return (block->before == NULL || !block->before->is_free) && (block->after == NULL || !block->after->is_free);
}

/* True if a block is out, as between take and give: for asserts. */
static inline bool mt_block_is_out(const struct mt_block *block)
{
    return block->segment != NULL && !block->is_free && !block->is_hole && !block->is_waiting &&
           block->requested_bytes > 0 && block->requested_bytes <= block->bytes;
}

/* A policy's insert or remove. */
typedef void mt_index_change(struct mt_alloc *alloc, struct mt_block *block);

/* Returns a block that is linked to no other, neither free nor a hole. It is set field by field: clearing the whole
 * structure takes longer than all the rest of a split. */
static inline struct mt_block *mt_block_create(struct mt_block_store *store, struct mt_segment *segment,
                                               uint64_t offset, uint64_t bytes)
{
    assert(bytes > 0 && offset + bytes <= segment->bytes);
    if (store->spare == NULL)
        mt_block_store_grow(store);
    struct mt_block *block = store->spare;
    assert(block->segment == NULL); /* it is spare */
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

/* Cuts `block` to `bytes` and returns the rest, in the same state: free and not in the index, or a hole. */
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

/* Cuts a part out of a free block that is not in the index, and puts the rest on either side there. Returns the part. */
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

/* Adds the bytes of the block after `block` to it, and destroys that one. Both are free and not in the index, or holes. */
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

/* Coalesces a free block that is not in the index with its free neighbours, which leave the index; returns the whole. */
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
