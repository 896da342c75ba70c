/* How blocks tile a segment: one becomes two, and two neighbours one.
 *
 *   ├──────── block ────────┤   split   ├─ block ─┼─── rest ───┤
 *   ├─ block ─┼─── after ───┤   absorb  ├──────── block ────────┤
 *
 * Inline, since this is most of what a block passes on its way out and back: a policy compiles it together with its own
 * index, whose changes it passes along. Everything here is called with the allocator's lock held. */
#ifndef MT_ALLOC_TILING_H
#define MT_ALLOC_TILING_H

#include "alloc/block.h"

/* A policy's insert or remove. */
typedef void mt_index_change(struct mt_alloc *alloc, struct mt_block *block);

/* Alone in its segment, and of no kind yet. Field by field: clearing the whole structure takes longer than all the rest
 * of a split. */
static inline struct mt_block *mt_block_create(struct mt_block_store *store, struct mt_segment *segment,
                                               uint64_t offset, uint64_t bytes)
{
    if (store->spare == NULL)
        mt_block_store_grow(store);
    struct mt_block *block = store->spare;
    store->spare = block->link[0];
    block->bytes = bytes;
    block->offset = offset;
    block->segment = segment;
    block->before = block->after = NULL;
    block->users = NULL;
    block->is_free = block->is_hole = false;
    return block;
}

static inline void mt_block_destroy(struct mt_block_store *store, struct mt_block *block)
{
    block->segment = NULL;
    block->link[0] = store->spare;
    store->spare = block;
}

/* Cuts `block` to `bytes`; returns the rest, as it was: free and not in the index, or a hole. */
static inline struct mt_block *mt_block_split(struct mt_alloc *alloc, struct mt_block *block, uint64_t bytes)
{
    struct mt_segment *segment = block->segment;
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
    return rest;
}

/* Cuts a part out of a free block that is not in the index, and puts what is left of it there. Returns the part. */
static inline struct mt_block *mt_block_cut(struct mt_alloc *alloc, struct mt_block *block, struct mt_block_part part,
                                            mt_index_change *insert)
{
    if (part.skip > 0) {
        struct mt_block *before = block;
        block = mt_block_split(alloc, before, part.skip);
        insert(alloc, before);
    }
    if (block->bytes > part.bytes)
        insert(alloc, mt_block_split(alloc, block, part.bytes));
    return block;
}

/* `block` takes over the bytes of the neighbour after it, which is no more. */
static inline void mt_block_absorb_after(struct mt_alloc *alloc, struct mt_block *block)
{
    struct mt_block *after = block->after;
    block->segment->holes -= after->is_hole;
    block->bytes += after->bytes;
    block->after = after->after;
    if (block->after != NULL)
        block->after->before = block;
    else
        block->segment->last = block;
    mt_block_destroy(&alloc->store, after);
}

/* Joins a free block that is not in the index with its free neighbours, which leave the index; returns the whole. */
static inline struct mt_block *mt_block_merge(struct mt_alloc *alloc, struct mt_block *block, mt_index_change *remove)
{
    if (block->after != NULL && block->after->is_free) {
        remove(alloc, block->after);
        mt_block_absorb_after(alloc, block);
    }
    if (block->before == NULL || !block->before->is_free)
        return block;
    block = block->before;
    remove(alloc, block);
    mt_block_absorb_after(alloc, block);
    return block;
}

#endif
