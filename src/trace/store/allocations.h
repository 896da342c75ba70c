/* The allocations of a run: the live ones, and their number for each label and size. */
#pragma once

#include "base/event.h"

/* The place of a block. No two live blocks have the same. */
struct mt_place {
    uint64_t offset; /* in the segment */
    uint32_t segment;
};

static inline struct mt_place mt_event_place(const struct mt_event *event)
{
    return (struct mt_place){event->offset, event->segment};
}

/* One live block. Freed entries are chained through `next` from `mt_live.free`. */
struct mt_live_block {
    int64_t event; /* id of its alloc */
    struct mt_place place;
    uint32_t previous, next;
    uint32_t chained; /* the next entry of its bucket */
    uint32_t label;   /* the number of its current label */
};

/* The live blocks, by place, and as a list in the order of their allocation. New blocks are added at the end and
 * event ids only grow, so the list is sorted by id, and a checkpoint is one pass over it.
 *
 * Invariants: entry 0 is the list's end on both sides, and not in a bucket; every listed block is in the bucket of its
 * place's hash, chained from buckets[hash]; ids ascend along the list; count < used; count <= mask + 1. */
struct mt_live {
    uint32_t *buckets;
    struct mt_live_block *blocks;
    uint32_t mask;  /* buckets - 1 */
    uint32_t count; /* of live blocks */
    uint32_t used;  /* entries in use or chained, entry 0 included */
    uint32_t free;  /* 0: none */
};

void mt_live_create(struct mt_live *live);
void mt_live_release(struct mt_live *live);

/* Adds the block of an alloc event, whose id must be larger than every earlier one. A block that is already live at
 * this place counts as freed. */
void mt_live_add(struct mt_live *live, struct mt_place place, int64_t event, uint32_t label);

/* Returns the block at this place, NULL if there is none. It is valid until the next addition. */
struct mt_live_block *mt_live_find(const struct mt_live *live, struct mt_place place);

/* Removes the block at this place. Returns the id of its alloc, 0 if there is none. */
int64_t mt_live_take(struct mt_live *live, struct mt_place place);

/* Encodes the ids as unsigned LEB128 numbers: each as the difference from the one before, the first from `base`.
 * Returns the number of bytes. The caller frees *out. */
size_t mt_live_encode(const struct mt_live *live, int64_t base, unsigned char **out);

/* At twice as many different (label, size) pairs, the smallest sizes are dropped. */
enum { MT_SUMMARY_ALLOCATIONS = 1 << 16 };

/* The allocations of one (label, requested bytes) pair. count 0: a free slot. */
struct mt_allocation_row {
    uint64_t requested_bytes;
    int64_t first_event;
    uint64_t count;
    uint32_t label; /* its number */
};

/* The table of pairs. Its size is bounded: the smallest sizes are dropped permanently; the remaining rows are exact.
 *
 * Invariants: used * 2 <= mask + 1, a power of two; every allocation of at least complete_from_bytes is counted, and no
 * smaller one. */
struct mt_allocations {
    struct mt_allocation_row *rows;
    size_t mask, used;
    size_t limit; /* used rows at which the smallest sizes are dropped */
    uint64_t complete_from_bytes;
};

void mt_allocations_create(struct mt_allocations *allocations);
void mt_allocations_release(struct mt_allocations *allocations);

/* Counts an allocation. `event` is the id of its alloc. */
void mt_allocations_add(struct mt_allocations *allocations, uint32_t label, uint64_t requested_bytes, int64_t event);
