/* The run's device and the state of its allocator: statistics, limits, memory, the card. */
#include "api/run_parts.h"

#include <assert.h>

mt_status mt_api_check_device(const struct memtrace_run *run)
{
    assert((run->alloc == NULL) == (run->device == NULL));
    return run->alloc != NULL ? MT_OK
                              : mt_fail(MT_USAGE, "the run was opened without a device, so it has no allocator");
}

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), "the numbers are the same")
SAME(MEMTRACE_COUNT_BLOCKS, MT_COUNTED_BLOCKS);
SAME(MEMTRACE_COUNT_SEGMENTS, MT_COUNTED_SEGMENTS);
SAME(MEMTRACE_COUNT_SPLIT_BLOCKS, MT_COUNTED_SPLIT_BLOCKS);
SAME(MEMTRACE_COUNT_OVERSIZE_BLOCKS, MT_COUNTED_OVERSIZE_BLOCKS);
SAME(MEMTRACE_COUNT_OVERSIZE_SEGMENTS, MT_COUNTED_OVERSIZE_SEGMENTS);
SAME(MEMTRACE_COUNT_REQUESTED_BYTES, MT_COUNTED_REQUESTED_BYTES);
SAME(MEMTRACE_COUNT_ALLOCATED_BYTES, MT_COUNTED_ALLOCATED_BYTES);
SAME(MEMTRACE_COUNT_RESERVED_BYTES, MT_COUNTED_RESERVED_BYTES);
SAME(MEMTRACE_COUNT_SPLIT_BYTES, MT_COUNTED_SPLIT_BYTES);
SAME(MEMTRACE_COUNTERS, MT_COUNTED_COUNT);
SAME(MEMTRACE_SMALL_POOL, MT_POOL_SMALL);
SAME(MEMTRACE_LARGE_POOL, MT_POOL_LARGE);
SAME(MEMTRACE_BOTH_POOLS, MT_BOTH_POOLS);
SAME(MEMTRACE_POOLS, MT_POOL_ROWS);
#undef SAME

static memtrace_counter make_counter(const struct mt_counter *counter)
{
    assert(counter->now <= counter->total && counter->now <= counter->peak);
    return (memtrace_counter){.current = counter->now,
                              .peak = counter->peak,
                              .taken = counter->total,
                              .given = counter->total - counter->now};
}

memtrace_status memtrace_run_statistics(memtrace_run *run, memtrace_statistics *out_statistics)
{
    struct mt_alloc_stats stats;
    MT_API_TRY(mt_api_check_device(run));
    mt_alloc_stats(run->alloc, &stats);
    memtrace_statistics known = {.requested_bytes = stats.all.requested_bytes,
                                 .allocated_bytes = stats.all.allocated_bytes,
                                 .reserved_bytes = stats.reserved_bytes,
                                 .peak_requested_bytes = stats.all.peak_requested_bytes,
                                 .peak_allocated_bytes = stats.all.peak_allocated_bytes,
                                 .peak_reserved_bytes = stats.peak_reserved_bytes,
                                 .blocks = stats.all.blocks,
                                 .taken = stats.all.total_allocs,
                                 .refused = stats.ooms,
                                 .retries = stats.retries,
                                 .largest_free_bytes = stats.largest_free_bytes,
                                 .max_split_bytes = stats.max_split_bytes};
    for (int counted = 0; counted < MT_COUNTED_COUNT; counted++)
        for (int pool = 0; pool < MT_POOL_ROWS; pool++)
            known.counters[counted][pool] = make_counter(&stats.pools.of[counted][pool]);
    return mt_api_status(mt_api_copy_out("memtrace_statistics", &known, sizeof known, out_statistics));
}

memtrace_status memtrace_reset_peaks(memtrace_run *run)
{
    MT_API_TRY(mt_api_check_device(run));
    mt_alloc_reset_peaks(run->alloc);
    return MEMTRACE_OK;
}

memtrace_status memtrace_set_memory_fraction(memtrace_run *run, double fraction)
{
    MT_API_TRY(mt_api_check_device(run));
    if (!(fraction > 0 && fraction <= 1))
        return mt_api_status(
            mt_fail(MT_USAGE, "a fraction of %g of the memory; above 0 and up to 1 can be set", fraction));
    mt_device_limit(run->device, fraction);
    return MEMTRACE_OK;
}

memtrace_status memtrace_memory_info(memtrace_run *run, uint64_t *out_free_bytes, uint64_t *out_total_bytes)
{
    MT_API_TRY(mt_api_check_device(run));
    return mt_api_status(mt_device_free_memory(run->device, out_free_bytes, out_total_bytes));
}

memtrace_status memtrace_run_card(memtrace_run *run, memtrace_card *out_card)
{
    MT_API_TRY(mt_api_check_device(run));
    const struct mt_card *card = &run->device->card;
    const memtrace_card known = {.name = card->name,
                                 .product = card->product,
                                 .memory_bytes = card->memory_bytes,
                                 .context_bytes = card->context_bytes,
                                 .capability = card->capability,
                                 .multiprocessors = card->multiprocessors,
                                 .threads_per_multiprocessor = card->threads_per_multiprocessor,
                                 .matmul_workspace_bytes = card->matmul_workspace_bytes};
    return mt_api_status(mt_api_copy_out("memtrace_card", &known, sizeof known, out_card));
}
