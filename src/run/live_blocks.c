/* Blocks of the run's allocator, which callers know by their address. */
#include "base/order.h"
#include "run/live_parts.h"

#include <assert.h>

static mt_addr add(struct mt_live_run *run, struct mt_block *block)
{
    const mt_addr address = mt_block_address(block);
    assert(address != 0 && address != MT_NUMBER_MAP_NO_KEY);
    mt_lock_take(&run->blocks_lock);
    mt_number_map_put(&run->blocks, address, (uint64_t)(uintptr_t)block);
    mt_lock_give(&run->blocks_lock);
    return address;
}

mt_status mt_live_run_take(struct mt_live_run *run, const struct mt_alloc_request *request, mt_addr *out)
{
    struct mt_block *block = NULL;
    assert(run->alloc != NULL);
    MT_TRY(mt_alloc_serve(run->alloc, request, &block));
    *out = add(run, block);
    return MT_OK;
}

mt_status mt_live_run_take_at(struct mt_live_run *run, const struct mt_alloc_request *request, mt_addr address)
{
    struct mt_block *block = NULL;
    MT_TRY(mt_alloc_take_at(run->alloc, request, address, &block));
    (void)add(run, block);
    return MT_OK;
}

/* Forgets the address first, since another thread may get it as soon as the block is free. */
bool mt_live_run_give(struct mt_live_run *run, mt_addr address)
{
    uint64_t block = 0;
    mt_lock_take(&run->blocks_lock);
    bool is_known = mt_number_map_take(&run->blocks, address, &block);
    mt_lock_give(&run->blocks_lock);
    if (is_known)
        mt_alloc_give(run->alloc, (struct mt_block *)(uintptr_t)block);
    return is_known;
}

/* Takes the lock and returns the live block that begins at the address; NULL if there is none. The caller holds the lock for as
 * long as it uses the block, so that no other thread frees it meanwhile. */
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

uint64_t mt_live_run_relabel_until(struct mt_live_run *run, uint64_t sequence,
                                   mt_label_id (*choose)(void *context, mt_label_id label), void *context)
{
    uint64_t newest = 0;
    mt_lock_take(&run->blocks_lock);
    for (size_t i = 0; i <= run->blocks.mask; i++) {
        if (run->blocks.pairs[i].key == MT_NUMBER_MAP_NO_KEY)
            continue;
        struct mt_block *block = (struct mt_block *)(uintptr_t)run->blocks.pairs[i].value;
        newest = mt_larger(newest, mt_block_sequence(block));
        if (mt_block_sequence(block) <= sequence)
            mt_alloc_relabel(run->alloc, block, choose(context, mt_block_label(block)), mt_block_span(block));
    }
    mt_lock_give(&run->blocks_lock);
    return newest;
}
