/* What a program asks of a card that is simulated: its properties, free memory, and the counters of memory_stats. */
#include "torch/torch_library.h"
#include "torch/torch_memory.h"

#include <stdio.h>

int memtrace_torch_describe(const char *device, struct memtrace_torch_description *out)
{
    struct mt_device *opened = NULL;
    *out = (struct memtrace_torch_description){0};
    if (device == NULL && mt_torch_simulated() == NULL)
        return mt_fail(MT_NO_DEVICE, "no card is simulated");
    MT_TRY(mt_device_open(device != NULL ? device : mt_torch_simulated(), &opened));
    const struct mt_card *card = &opened->card;
    snprintf(out->name, sizeof out->name, "%s", card->product);
    out->total_bytes = card->memory_bytes;
    out->context_bytes = card->context_bytes;
    out->capability = card->capability;
    out->multiprocessors = card->multiprocessors;
    out->threads_per_multiprocessor = card->threads_per_multiprocessor;
    mt_device_close(opened);
    return MT_OK;
}

int memtrace_torch_counters(int device, uint64_t out[MEMTRACE_TORCH_COUNTERS])
{
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    struct mt_alloc_stats stats = {0};
    _Static_assert(MT_COUNTED_COUNT * MT_POOL_ROWS * 3 + 2 == MEMTRACE_TORCH_COUNTERS, "all counters have a place");
    if (memory != NULL && mt_torch_memory_alloc(memory) != NULL)
        mt_alloc_stats(mt_torch_memory_alloc(memory), &stats);
    uint64_t *next = out;
    for (int counted = 0; counted < MT_COUNTED_COUNT; counted++)
        for (int pool = 0; pool < MT_POOL_ROWS; pool++) {
            const struct mt_counter *counter = &stats.pools.of[counted][pool];
            *next++ = counter->now;
            *next++ = counter->peak;
            *next++ = counter->total;
        }
    *next++ = stats.retries;
    *next++ = stats.ooms;
    return MT_OK;
}
