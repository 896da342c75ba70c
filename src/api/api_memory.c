/* Memory by address: blocks of the run's allocator, which callers know by their address, and notes of memory that the
 * program takes elsewhere. */
#include "api/run_parts.h"

#include <assert.h>
#include <inttypes.h>

/* ---- the allocator ---- */

static mt_status check_device(const struct memtrace_run *run)
{
    assert((run->alloc == NULL) == (run->device == NULL));
    return run->alloc != NULL ? MT_OK
                              : mt_fail(MT_USAGE, "the run was opened without a device, so it has no allocator");
}

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

static bool find_block(struct memtrace_run *run, uint64_t address, uint64_t *out)
{
    mt_lock_take(&run->blocks_lock);
    bool found = mt_number_map_get(&run->blocks, address, out);
    mt_lock_give(&run->blocks_lock);
    return found;
}

static mt_status fail_unknown(uint64_t address)
{
    return mt_fail(MT_USAGE, "no live block begins at 0x%" PRIx64 ": it was given back, or was never taken here",
                   address);
}

memtrace_status memtrace_take(memtrace_run *run, uint64_t bytes, uint16_t stream, const memtrace_label *label,
                              uint64_t *out_address)
{
    mt_label_id id = 0;
    mt_span_id span = 0;
    struct mt_block *block = NULL;
    MT_API_TRY(check_device(run));
    MT_API_TRY(mt_api_label(run, label, &id, &span));
    MT_API_TRY(mt_alloc_take(run->alloc, bytes, stream, id, span, &block));
    put_block(run, block);
    *out_address = mt_block_address(block);
    return MEMTRACE_OK;
}

memtrace_status memtrace_give(memtrace_run *run, uint64_t address)
{
    uint64_t block;
    if (address == 0)
        return MEMTRACE_OK;
    MT_API_TRY(check_device(run));
    if (!take_block(run, address, &block))
        return mt_api_status(fail_unknown(address));
    mt_alloc_give(run->alloc, (struct mt_block *)(uintptr_t)block);
    return MEMTRACE_OK;
}

memtrace_status memtrace_use_on(memtrace_run *run, uint64_t address, uint16_t stream)
{
    uint64_t block;
    MT_API_TRY(check_device(run));
    if (!find_block(run, address, &block))
        return mt_api_status(fail_unknown(address));
    mt_alloc_use_on(run->alloc, (struct mt_block *)(uintptr_t)block, stream);
    return MEMTRACE_OK;
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
    MT_API_TRY(check_device(run));
    mt_alloc_release_cached(run->alloc);
    return MEMTRACE_OK;
}

memtrace_status memtrace_run_statistics(memtrace_run *run, memtrace_statistics *out_statistics)
{
    struct mt_alloc_stats stats;
    MT_API_TRY(check_device(run));
    mt_alloc_stats(run->alloc, &stats);
    assert(stats.all.requested_bytes <= stats.all.allocated_bytes && stats.reserved_bytes <= stats.peak_reserved_bytes);
    assert(stats.all.allocated_bytes <= stats.all.peak_allocated_bytes);
    memtrace_statistics known = {.requested_bytes = stats.all.requested_bytes,
                                 .allocated_bytes = stats.all.allocated_bytes,
                                 .reserved_bytes = stats.reserved_bytes,
                                 .peak_requested_bytes = stats.all.peak_requested_bytes,
                                 .peak_allocated_bytes = stats.all.peak_allocated_bytes,
                                 .peak_reserved_bytes = stats.peak_reserved_bytes,
                                 .blocks = stats.all.blocks,
                                 .taken = stats.all.total_allocs,
                                 .refused = stats.ooms};
    return mt_api_status(mt_api_copy_out("memtrace_statistics", &known, sizeof known, out_statistics));
}

/* ---- notes ---- */

static mt_status describe(struct memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream,
                          const memtrace_label *label, struct mt_foreign_block *out)
{
    *out =
        (struct mt_foreign_block){.address = address, .requested_bytes = bytes, .block_bytes = bytes, .stream = stream};
    return mt_api_label(run, label, &out->label, &out->span);
}

memtrace_status memtrace_note_take(memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream,
                                   const memtrace_label *label)
{
    struct mt_foreign_block block;
    MT_API_TRY(describe(run, address, bytes, stream, label, &block));
    MT_API_NOTE(run, mt_foreign_take(run->notes, mt_api_now_ns(run), &block));
    return MEMTRACE_OK;
}

void memtrace_note_give(memtrace_run *run, uint64_t address)
{
    MT_API_NOTE(run, mt_foreign_give(run->notes, mt_api_now_ns(run), address));
}

memtrace_status memtrace_note_refusal(memtrace_run *run, uint64_t bytes, uint64_t stream, const memtrace_label *label)
{
    struct mt_foreign_block request;
    MT_API_TRY(describe(run, 0, bytes, stream, label, &request));
    MT_API_NOTE(run, mt_foreign_oom(run->notes, mt_api_now_ns(run), &request));
    return MEMTRACE_OK;
}

void memtrace_note_map(memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream)
{
    MT_API_NOTE(run, mt_foreign_map(run->notes, mt_api_now_ns(run), address, bytes, stream));
}

void memtrace_note_unmap(memtrace_run *run, uint64_t address, uint64_t bytes)
{
    MT_API_NOTE(run, mt_foreign_unmap(run->notes, mt_api_now_ns(run), address, bytes));
}

memtrace_status memtrace_run_note_counts(memtrace_run *run, memtrace_note_counts *out_counts)
{
    mt_lock_take(&run->notes_lock);
    struct mt_foreign_counts counts = mt_foreign_counts(run->notes);
    mt_lock_give(&run->notes_lock);
    memtrace_note_counts known = {.takes = counts.takes,
                                  .gives = counts.gives,
                                  .maps = counts.maps,
                                  .unmaps = counts.unmaps,
                                  .unseen_gives = counts.unseen_gives,
                                  .lost_gives = counts.lost_gives,
                                  .unmapped_gives = counts.unmapped_gives,
                                  .ignored = counts.refused};
    return mt_api_status(mt_api_copy_out("memtrace_note_counts", &known, sizeof known, out_counts));
}
