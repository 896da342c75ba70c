/* The parts that an allocator is made of, as its files share them; nobody outside of this folder includes this.
 *
 *   oldest ─▶ segment 0 ─▶ segment 1 ─▶ …            in birth order
 *                │
 *              first ─▶ block ⇄ block ⇄ block        tile the segment, in order of offset
 *
 * Common to both policies are segments, blocks, splitting and merging (segment.c), counting and emitting (alloc.c).
 * A policy decides sizes, finds free blocks and keeps the index over them (torch_policy.c, tight_policy.c).
 *
 * Everything here is called with the allocator's lock held. */
#ifndef MT_ALLOC_BLOCK_H
#define MT_ALLOC_BLOCK_H

#include "alloc/alloc.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    MT_BLOCK_UNIT = 512,       /* every block begins at, and is as long as, a multiple of this */
    MT_SEGMENT_UNIT = 2 << 20, /* every segment is as long as a multiple of this: a mappable page */
};

/* Small blocks have segments of their own, so that they never break up what large ones need. */
typedef enum mt_pool { MT_POOL_SMALL, MT_POOL_LARGE, MT_POOL_COUNT } mt_pool;

/* A part of a segment, either out or free.
 * Invariants: offset and bytes are multiples of MT_BLOCK_UNIT; before->offset + before->bytes == offset; of two
 * neighbours at most one is free; a block that is out has 0 < requested_bytes <= bytes; a free one is in the policy's
 * index exactly once. */
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
    uint32_t priority; /* random, of the structure's place in a tree; fixed for its life */
    mt_label_id label; /* while out */
    mt_span_id span;   /* while out */
    bool is_free;
};

/* What was reserved from the device in one piece.
 * Invariants: bytes is a multiple of MT_SEGMENT_UNIT; first->offset == 0; the blocks tile it; births never repeat and
 * grow along the list. */
struct mt_segment {
    mt_addr address;
    uint64_t bytes;
    struct mt_block *first;
    struct mt_segment *older, *newer;
    uint32_t birth;
    mt_stream stream;
    mt_pool pool;
};

/* Structures that wait to be used again; host memory is asked for in chunks, never for a single block.
 * Invariant: chunks only grow until the allocator is destroyed, so that a structure never moves. */
struct mt_block_store {
    struct mt_block *spare;
    struct mt_block **chunks;
    uint32_t chunk_count;
    struct mt_segment *spare_segment; /* linked by `newer` */
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

    /* The free block that suits best, still in the index, or NULL. */
    struct mt_block *(*find)(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes);

    /* Maps a segment that can hold `bytes`, after releasing what has to go first. Its one block is free, and not in the
     * index. NULL if the device has no more. */
    struct mt_block *(*grow)(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes);

    /* Whether `block` is cut when `bytes` of it are handed out. */
    bool (*splits)(const struct mt_alloc *alloc, const struct mt_block *block, uint64_t bytes);

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
 * emitted. */
struct mt_alloc {
    pthread_mutex_t lock; /* guards everything below, the sink and its interner */
    const struct mt_policy_table *policy;
    void *index; /* the policy's */
    struct mt_device *device;
    struct mt_sink sink;
    struct mt_alloc_settings settings;
    uint64_t start_ns;              /* the device's clock at the creation: times are told from there */
    _Atomic uint64_t next_sequence; /* written under the lock, read by anybody */
    uint32_t next_birth;
    struct mt_segment *oldest, *newest;
    struct mt_block_store store;
    struct mt_follower *follower; /* of a plan (follow.h); NULL: none was given */
    struct mt_alloc_stats stats;  /* largest_free_bytes is derived when asked for */
};

/* Emits `event` with the next sequence number and the device's time. */
void mt_alloc_emit(struct mt_alloc *alloc, struct mt_event *event);

/* Reserves a segment, and says so to the sink. Returns its one block, free and not in the index; NULL if the device
 * refuses. */
struct mt_block *mt_segment_map(struct mt_alloc *alloc, mt_stream stream, mt_pool pool, uint64_t bytes);

/* Gives an idle segment back, and says so. Its block must be in the index. */
void mt_segment_unmap(struct mt_alloc *alloc, struct mt_segment *segment);

/* Whether no block of it is out. */
static inline bool mt_segment_is_idle(const struct mt_segment *segment)
{
    return segment->first->is_free && segment->first->bytes == segment->bytes;
}

/* Unmaps every idle segment, oldest first; returns their bytes. */
uint64_t mt_segments_release_idle(struct mt_alloc *alloc);

/* Cuts `block` to `bytes`; returns the rest, free and not in the index. */
struct mt_block *mt_block_split(struct mt_alloc *alloc, struct mt_block *block, uint64_t bytes);

/* Joins a free block that is not in the index with its free neighbours, which leave the index; returns the whole. */
struct mt_block *mt_block_merge(struct mt_alloc *alloc, struct mt_block *block);

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
