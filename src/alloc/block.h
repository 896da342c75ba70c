/* The parts that an allocator is made of, as its files share them; nobody outside of this folder includes this.
 *
 *   oldest ─▶ segment 0 ─▶ segment 1 ─▶ …                  in birth order
 *                │
 *              first ─▶ out ⇄ free ⇄ out ⇄ hole ◀─ last    blocks tile the segment, in order of offset
 *
 * A segment is reserved in one piece, or is a range of addresses: there, what has no memory is a hole.
 *
 * Common to both policies are how blocks tile a segment (tiling.h), segments in one piece (segment.c), ranges
 * (range.c), who uses a block (users.c), counting and emitting (alloc.c). A policy decides sizes, finds free blocks,
 * cuts them and keeps the index over them (torch_policy.c, tight_policy.c).
 *
 * What is rare is marked cold, here and in base/lock.h: a compiler that puts it into what every event passes saves
 * registers for it there, which took a tenth of an event.
 *
 * Everything here is called with the allocator's lock held. */
#ifndef MT_ALLOC_BLOCK_H
#define MT_ALLOC_BLOCK_H

#include "alloc/alloc.h"
#include "base/lock.h"

#include <stdatomic.h>

enum {
    MT_BLOCK_UNIT = 512,              /* every block begins at, and is as long as, a multiple of this */
    MT_SEGMENT_UNIT = MT_DEVICE_PAGE, /* every segment, and every hole, is as long as a multiple of this */
};

/* Small blocks have segments of their own, so that they never break up what large ones need. */
typedef enum mt_pool { MT_POOL_SMALL, MT_POOL_LARGE, MT_POOL_COUNT } mt_pool;

/* Another stream that uses a block. */
struct mt_user {
    struct mt_user *next;
    mt_stream stream;
};

/* A part of a segment: out, free, or a hole.
 * Invariants: offset and bytes are multiples of MT_BLOCK_UNIT, of a hole of MT_SEGMENT_UNIT; before->offset +
 * before->bytes == offset; of two neighbours at most one is free, and at most one a hole; a block that is out has 0 <
 * requested_bytes <= bytes; a free one is in the policy's index exactly once, a hole never. */
struct mt_block {
    uint64_t bytes;
    uint64_t offset; /* in the segment */
    struct mt_segment *segment;
    struct mt_block *before, *after; /* neighbours in the segment; NULL at its ends */
    union {
        struct mt_block *link[2]; /* while free: the policy's index; while spare: [0] is the next spare one */
        struct {
            uint64_t sequence; /* while out: of its alloc event */
            uint64_t border;   /* in a plan's arena, out or free: see follow.c */
        };
    };
    union {
        uint64_t requested_bytes; /* while out */
        uint64_t freed_at;        /* while free, torch: how many searches its pool had seen */
    };
    struct mt_user *users; /* while out: streams beside its own, each once */
    uint32_t priority;     /* random, of the structure's place in a tree; fixed for its life */
    mt_label_id label;     /* while out */
    mt_span_id span;       /* while out */
    bool is_free;          /* not out, and no hole */
    bool is_hole;          /* without memory */
};

/* What was reserved from the device in one piece, or a range of addresses with memory under parts of it.
 * Invariants: bytes is a multiple of MT_SEGMENT_UNIT; first->offset == 0; the blocks tile it; births never repeat and
 * grow along the list; mapped_bytes is the sum of the blocks but for holes, and above 0; without is_range there is no
 * hole. */
struct mt_segment {
    mt_addr address;
    uint64_t bytes;        /* of addresses */
    uint64_t mapped_bytes; /* that have memory */
    struct mt_block *first, *last;
    struct mt_segment *older, *newer;
    void *home; /* tight: where its free blocks are kept; NULL until one is */
    uint32_t birth;
    uint32_t holes;
    mt_stream stream;
    mt_pool pool;
    bool is_range;
};

/* Structures that wait to be used again; host memory is asked for in chunks, never for a single block.
 * Invariant: chunks only grow until the allocator is destroyed, so that a structure never moves. */
struct mt_block_store {
    struct mt_block *spare;
    struct mt_block **chunks;
    uint32_t chunk_count;
    struct mt_segment *spare_segment; /* linked by `newer` */
    struct mt_user *spare_user;
};

/* The part of a free block that is handed out. Invariant: skip + bytes <= the block's. */
struct mt_block_part {
    uint64_t skip; /* what stays free before it */
    uint64_t bytes;
};

/* What a policy does. `index` is what its create returned. */
struct mt_policy_table {
    const char *name;
    uint64_t small_limit_bytes; /* rounded requests up to this size belong to the small pool */

    void *(*create)(void);
    void (*destroy)(void *index);

    /* The bytes of the block that a request gets (more, if what remains is not split off); false if that overflows. */
    bool (*round)(const struct mt_alloc_settings *settings, uint64_t requested_bytes, uint64_t *out_bytes);

    /* The bytes of the least segment for a rounded request; false if that overflows. */
    bool (*least_segment)(uint64_t bytes, uint64_t *out_bytes);

    /* Takes the free block that suits best out of the index, cut to what is handed out for a request of `bytes`; NULL
     * if none does. */
    struct mt_block *(*take)(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label);

    /* The same of memory that is taken from the device, after releasing what has to go first. NULL if that has no
     * more: alloc->growth tells why. */
    struct mt_block *(*grow)(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label);

    /* Joins a free block that is not in the index with its free neighbours, and puts the whole there. Returns that. */
    struct mt_block *(*give)(struct mt_alloc *alloc, struct mt_block *block);

    /* One block, as it is, into the index and out of it. */
    void (*insert)(struct mt_alloc *alloc, struct mt_block *block);
    void (*remove)(struct mt_alloc *alloc, struct mt_block *block);

    /* Whether the index holds a free block where a search would find it. For tests: may take long. */
    bool (*holds)(const struct mt_alloc *alloc, const struct mt_block *block);

    /* A number for what else decides which block is found next than which blocks there are. */
    uint64_t (*remembers)(const struct mt_alloc *alloc);

    /* Compares the index with itself and counts what it holds: MT_FAILED with the first difference. */
    mt_status (*check)(const struct mt_alloc *alloc, uint64_t *out_blocks);
};

extern const struct mt_policy_table mt_policy_torch, mt_policy_tight;

/* Invariants: stats.reserved_bytes is the sum over the segments; the list is in birth order; next_sequence events were
 * emitted; start_ns <= last_ns, which never shrinks. */
struct mt_alloc {
    struct mt_biased_lock lock; /* guards everything below, the sink and its interner */
    const struct mt_policy_table *policy;
    void *index; /* the policy's */
    struct mt_device *device;
    struct mt_sink sink;
    struct mt_alloc_settings settings;
    uint64_t start_ns;              /* the device's clock at the creation: times are told from there */
    uint64_t last_ns;               /* and at the last event that a sink wanted: threads' clocks differ a little */
    _Atomic uint64_t next_sequence; /* written under the lock, read by anybody */
    uint32_t next_birth;
    mt_status growth; /* of a request that is refused: why; of no meaning otherwise */
    struct mt_segment *oldest, *newest;
    struct mt_block_store store;
    struct mt_follower *follower; /* of a plan (follow.h); NULL: none was given */
    struct mt_alloc_stats stats;  /* largest_free_bytes is derived when asked for */
};

/* Emits `event` with the next sequence number and the device's time, or that of the event before if it is later. */
void mt_alloc_emit(struct mt_alloc *alloc, struct mt_event *event);

/* Reserves a segment, and says so to the sink. Returns its one block, free and not in the index; NULL if the device
 * refuses: alloc->growth tells why. */
struct mt_block *mt_segment_map(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes);

/* Gives an idle segment in one piece back, and says so. Its block must be in the index. */
void mt_segment_unmap(struct mt_alloc *alloc, struct mt_segment *segment);

/* Bytes, rounded up to MT_SEGMENT_UNIT: of a segment or a block, where that fits. */
static inline uint64_t mt_whole_pages(uint64_t bytes)
{
    return (bytes + MT_SEGMENT_UNIT - 1) / MT_SEGMENT_UNIT * MT_SEGMENT_UNIT;
}

/* Whether it is one free block. Not to be asked of a range, which gives back pages. */
static inline bool mt_segment_is_idle(const struct mt_segment *segment)
{
    return segment->first->is_free && segment->first->bytes == segment->bytes;
}

/* A segment of which nothing has memory yet: one block, a hole where is_range says so and else free; and its end, of
 * which nobody is told. */
struct mt_segment *mt_segment_add(struct mt_alloc *alloc, const struct mt_segment *like);
void mt_segment_drop(struct mt_alloc *alloc, struct mt_segment *segment);

/* Counts `bytes` at `offset` that got memory, or lost it, and says so. */
void mt_segment_count_mapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes);
void mt_segment_count_unmapped(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t offset, uint64_t bytes);

/* Gives what no block is taken from back to the device, until that amounts to `bytes`: idle segments and, of ranges,
 * every whole page; oldest first, ranges from their end. Returns what it amounts to. */
uint64_t mt_segments_release(struct mt_alloc *alloc, uint64_t bytes);

/* Gives memory to a range of the stream and pool, until one of its free blocks has `bytes`: where the fewest pages are
 * missing, which is at its end unless pages were given back; a new range is opened where there is none, or none has the
 * room. Returns the block, not in the index; NULL if the device refuses. */
struct mt_block *mt_range_grow(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes);

/* Gives free whole pages of a range back, from its end on, until they amount to `bytes`; the range ends with its last
 * one. Returns what they amount to. */
uint64_t mt_range_release(struct mt_alloc *alloc, struct mt_segment *segment, uint64_t bytes);

/* The block's own stream goes on after what its users have queued; then it has none. */
__attribute__((cold, noinline)) void mt_block_follow_users(struct mt_alloc *alloc, struct mt_block *block);
void mt_block_forget_users(struct mt_alloc *alloc, struct mt_block *block);

/* Asks the host for more structures: none is spare. */
__attribute__((cold, noinline)) void mt_block_store_grow(struct mt_block_store *store);
void mt_block_store_destroy(struct mt_block_store *store);

/* The order in which equal sizes are told apart: by (bytes, segment birth, offset). Negative, 0, positive. */
static inline int mt_block_compare(const struct mt_block *a, const struct mt_block *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->segment->birth != b->segment->birth)
        return a->segment->birth < b->segment->birth ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

#endif
