/* Blocks of the run's allocator, identified by their addresses. */
#include "base/memory.h"
#include "base/order.h"
#include "run/live_parts.h"

#include <assert.h>
#include <stdlib.h>

static mt_addr add(struct mt_live_run *run, struct mt_block *block, const struct mt_estimate_range *range)
{
    const mt_addr address = mt_block_address(block);
    assert(address != 0 && address != MT_NUMBER_MAP_NO_KEY);
    mt_lock_take(&run->blocks_lock);
    mt_number_map_put(&run->blocks, address, (uint64_t)(uintptr_t)block);
    if (run->bounds != NULL)
        mt_live_bounds_take(run->bounds, block, range);
    mt_lock_give(&run->blocks_lock);
    return address;
}

mt_status mt_live_run_take(struct mt_live_run *run, const struct mt_alloc_request *request, mt_addr *out)
{
    struct mt_block *block = NULL;
    const struct mt_estimate_range *range = mt_live_run_take_range();
    assert(run->alloc != NULL);
    MT_TRY(mt_alloc_serve(run->alloc, request, &block));
    *out = add(run, block, range);
    return MT_OK;
}

mt_status mt_live_run_take_at(struct mt_live_run *run, const struct mt_alloc_request *request, mt_addr address)
{
    struct mt_block *block = NULL;
    MT_TRY(mt_alloc_take_at(run->alloc, request, address, &block));
    (void)add(run, block, NULL);
    return MT_OK;
}

/* Locks, and returns the live block that begins at the address; NULL if there is none. The caller holds the lock while
 * it uses the block, so that no other thread frees it. */
static struct mt_block *enter(struct mt_live_run *run, mt_addr address)
{
    uint64_t block = 0;
    mt_lock_take(&run->blocks_lock);
    (void)mt_number_map_get(&run->blocks, address, &block);
    return (struct mt_block *)(uintptr_t)block;
}

static void leave(struct mt_live_run *run)
{
    mt_lock_give(&run->blocks_lock);
}

/* ---- uses ---- */

/* Returns and removes the uses of the block at an address. The lock is held. */
static struct mt_use take_uses(struct mt_live_run *run, mt_addr address, const struct mt_block *block)
{
    struct mt_use use = {.block = mt_block_sequence(block)};
    uint64_t found;
    if (!mt_number_map_take(&run->uses, address, &found))
        return use;
    use = *(struct mt_use *)(uintptr_t)found;
    free((void *)(uintptr_t)found);
    return use;
}

/* Stores the uses of a block, if uses are tracked. The lock is held. */
static void store_uses(struct mt_live_run *run, mt_addr address, const struct mt_block *block)
{
    if (run->use_state != MT_LIVE_USES_FOLLOWED)
        return;
    const struct mt_use use = take_uses(run, address, block);
    mt_alloc_use(run->alloc, &use);
}

/* Returns the uses of the block at an address. The lock is held. */
static struct mt_use *uses_at(struct mt_live_run *run, mt_addr address, const struct mt_block *block)
{
    uint64_t found;
    if (mt_number_map_get(&run->uses, address, &found))
        return (struct mt_use *)(uintptr_t)found;
    struct mt_use *made = mt_host_alloc(sizeof *made);
    made->block = mt_block_sequence(block);
    mt_number_map_put(&run->uses, address, (uint64_t)(uintptr_t)made);
    return made;
}

bool mt_live_run_use(struct mt_live_run *run, mt_addr address, mt_live_access_kind kind)
{
    const struct mt_block *block = enter(run, address);
    if (block != NULL && run->use_state != MT_LIVE_USES_LOST) {
        struct mt_use *use = uses_at(run, address, block);
        const uint64_t moment = mt_larger(mt_alloc_events(run->alloc) - 1, use->last);
        run->use_state = MT_LIVE_USES_FOLLOWED;
        (kind == MT_LIVE_READ ? mt_use_add_read : mt_use_add_write)(use, moment);
    }
    leave(run);
    return block != NULL;
}

void mt_live_run_lose_uses(struct mt_live_run *run)
{
    mt_lock_take(&run->blocks_lock);
    for (size_t i = 0; i <= run->uses.mask; i++)
        if (run->uses.pairs[i].key != MT_NUMBER_MAP_NO_KEY)
            free((void *)(uintptr_t)run->uses.pairs[i].value);
    if (run->uses.count > 0) {
        mt_number_map_release(&run->uses);
        mt_number_map_create(&run->uses);
    }
    run->use_state = MT_LIVE_USES_LOST;
    mt_lock_give(&run->blocks_lock);
}

void mt_live_run_store_uses(struct mt_live_run *run)
{
    mt_lock_take(&run->blocks_lock);
    for (size_t i = 0; i <= run->blocks.mask && run->use_state == MT_LIVE_USES_FOLLOWED; i++)
        if (run->blocks.pairs[i].key != MT_NUMBER_MAP_NO_KEY)
            store_uses(run, run->blocks.pairs[i].key, (const struct mt_block *)(uintptr_t)run->blocks.pairs[i].value);
    mt_lock_give(&run->blocks_lock);
    mt_live_run_lose_uses(run);
}

/* ---- blocks ---- */

/* Removes the address first, since another thread may get it as soon as the block is free. */
bool mt_live_run_give(struct mt_live_run *run, mt_addr address)
{
    uint64_t block = 0;
    mt_lock_take(&run->blocks_lock);
    bool is_known = mt_number_map_take(&run->blocks, address, &block);
    if (is_known)
        store_uses(run, address, (const struct mt_block *)(uintptr_t)block);
    if (run->bounds != NULL)
        mt_live_bounds_give(run->bounds, address);
    mt_lock_give(&run->blocks_lock);
    if (is_known)
        mt_alloc_give(run->alloc, (struct mt_block *)(uintptr_t)block);
    return is_known;
}

bool mt_live_run_find(struct mt_live_run *run, mt_addr address, uint64_t *out_bytes)
{
    const struct mt_block *block = enter(run, address);
    if (block != NULL)
        *out_bytes = mt_block_requested_bytes(block);
    leave(run);
    return block != NULL;
}

bool mt_live_run_stream(struct mt_live_run *run, mt_addr address, mt_stream *out)
{
    const struct mt_block *block = enter(run, address);
    if (block != NULL)
        *out = mt_block_stream(block);
    leave(run);
    return block != NULL;
}

bool mt_live_run_use_on(struct mt_live_run *run, mt_addr address, mt_stream stream)
{
    struct mt_block *block = enter(run, address);
    if (block != NULL)
        mt_alloc_use_on(run->alloc, block, stream);
    leave(run);
    return block != NULL;
}

bool mt_live_run_label(struct mt_live_run *run, mt_addr address, mt_label_id *out)
{
    const struct mt_block *block = enter(run, address);
    if (block != NULL)
        *out = mt_block_label(block);
    leave(run);
    return block != NULL;
}

bool mt_live_run_relabel(struct mt_live_run *run, mt_addr address, mt_label_id label, mt_span_id span)
{
    struct mt_block *block = enter(run, address);
    if (block != NULL)
        mt_alloc_relabel(run->alloc, block, label, span);
    leave(run);
    return block != NULL;
}

void mt_live_run_relabel_all(struct mt_live_run *run, mt_label_choice choose, void *context)
{
    if (run->foreign != NULL)
        mt_live_notes_relabel_all(run, choose, context);
    if (run->alloc == NULL)
        return;
    mt_lock_take(&run->blocks_lock);
    for (size_t i = 0; i <= run->blocks.mask; i++) {
        if (run->blocks.pairs[i].key == MT_NUMBER_MAP_NO_KEY)
            continue;
        struct mt_block *block = (struct mt_block *)(uintptr_t)run->blocks.pairs[i].value;
        const struct mt_block_label own = {mt_block_label(block), mt_block_span(block)};
        const struct mt_block_label chosen = choose(context, own, mt_block_sequence(block));
        mt_alloc_relabel(run->alloc, block, chosen.label, chosen.span);
    }
    mt_lock_give(&run->blocks_lock);
}
