/* Blocks of the run's allocator, which callers know by their address. */
#include "api/run_parts.h"

#include <assert.h>
#include <inttypes.h>

static void put_block(struct memtrace_run *run, struct mt_block *block)
{
    assert(mt_block_address(block) != 0 && mt_block_address(block) != MT_NUMBER_MAP_NO_KEY);
    mt_lock_take(&run->blocks_lock);
    mt_number_map_put(&run->blocks, mt_block_address(block), (uint64_t)(uintptr_t)block);
    mt_lock_give(&run->blocks_lock);
}

static bool take_block(struct memtrace_run *run, uint64_t address, uint64_t *out)
{
    mt_lock_take(&run->blocks_lock);
    bool found = mt_number_map_take(&run->blocks, address, out);
    mt_lock_give(&run->blocks_lock);
    return found;
}

/* Returns the live block that begins at the address, and NULL if there is none. The caller holds the lock for as long as
 * it uses the block, so that no other thread gives it back meanwhile. */
static struct mt_block *block_at(struct memtrace_run *run, uint64_t address)
{
    uint64_t block = 0;
    (void)mt_number_map_get(&run->blocks, address, &block);
    return (struct mt_block *)(uintptr_t)block;
}

static mt_status fail_unknown(uint64_t address)
{
    return mt_fail(MT_USAGE, "no live block begins at 0x%" PRIx64 ": it was given back, or was never taken here",
                   address);
}

memtrace_status memtrace_take(memtrace_run *run, uint64_t bytes, uint16_t stream, const memtrace_label *label,
                              uint64_t *out_address)
{
    struct mt_api_purpose purpose;
    struct mt_block *block = NULL;
    MT_API_TRY(mt_api_check_device(run));
    MT_API_TRY(mt_api_label(run, label, &purpose));
    const struct mt_alloc_request request = {
        .bytes = bytes, .stream = stream, .label = purpose.label, .span = purpose.span, .stack = purpose.stack};
    MT_API_TRY(mt_alloc_serve(run->alloc, &request, &block));
    put_block(run, block);
    *out_address = mt_block_address(block);
    return MEMTRACE_OK;
}

memtrace_status memtrace_give(memtrace_run *run, uint64_t address)
{
    uint64_t block;
    if (address == 0)
        return MEMTRACE_OK;
    MT_API_TRY(mt_api_check_device(run));
    if (!take_block(run, address, &block))
        return mt_api_status(fail_unknown(address));
    mt_alloc_give(run->alloc, (struct mt_block *)(uintptr_t)block);
    return MEMTRACE_OK;
}

memtrace_status memtrace_relabel(memtrace_run *run, uint64_t address, const memtrace_label *label)
{
    struct mt_api_purpose purpose;
    MT_API_TRY(mt_api_check_device(run));
    MT_API_TRY(mt_api_label(run, label, &purpose));
    mt_lock_take(&run->blocks_lock);
    struct mt_block *block = block_at(run, address);
    if (block != NULL)
        mt_alloc_relabel(run->alloc, block, purpose.label, purpose.span);
    mt_lock_give(&run->blocks_lock);
    return mt_api_status(block != NULL ? MT_OK : fail_unknown(address));
}

memtrace_status memtrace_use_on(memtrace_run *run, uint64_t address, uint16_t stream)
{
    MT_API_TRY(mt_api_check_device(run));
    mt_lock_take(&run->blocks_lock);
    struct mt_block *block = block_at(run, address);
    if (block != NULL)
        mt_alloc_use_on(run->alloc, block, stream);
    mt_lock_give(&run->blocks_lock);
    return mt_api_status(block != NULL ? MT_OK : fail_unknown(address));
}

memtrace_status memtrace_find(memtrace_run *run, uint64_t address, memtrace_block *out_block)
{
    struct mt_block_view view;
    MT_API_TRY(mt_api_check_device(run));
    if (!mt_alloc_find(run->alloc, address, &view))
        return mt_api_status(mt_fail(MT_USAGE, "no live block holds 0x%" PRIx64, address));
    const memtrace_block known = {.address = view.address,
                                  .requested_bytes = view.requested_bytes,
                                  .allocated_bytes = view.allocated_bytes,
                                  .stream = view.stream};
    return mt_api_status(mt_api_copy_out("memtrace_block", &known, sizeof known, out_block));
}

void *memtrace_stream_handle(memtrace_run *run, uint16_t stream)
{
    return run->device != NULL ? mt_device_stream_handle(run->device, stream) : NULL;
}

void *memtrace_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

memtrace_status memtrace_release_cached(memtrace_run *run)
{
    MT_API_TRY(mt_api_check_device(run));
    mt_alloc_release_cached(run->alloc);
    return MEMTRACE_OK;
}
