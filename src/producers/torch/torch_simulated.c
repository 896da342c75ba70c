/* What a program can query about a simulated card: its properties, free memory, and the counters of memory_stats. Also
 * the history of its requests. */
#include "base/lock.h"
#include "device/card_outside.h"
#include "producers/torch/torch_library.h"
#include "producers/torch/torch_memory.h"

#include <assert.h>
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
    out->others_bytes = card->others_bytes;
    out->l2_bytes = card->l2_bytes;
    out->block_shared_bytes = card->block_shared_bytes;
    out->multiprocessor_shared_bytes = card->multiprocessor_shared_bytes;
    out->capability = card->capability;
    out->multiprocessors = card->multiprocessors;
    out->threads_per_multiprocessor = card->threads_per_multiprocessor;
    mt_device_close(opened);
    return MT_OK;
}

/* A card that is not in use yet will have its context. */
uint64_t memtrace_torch_held(int device)
{
    struct memtrace_torch_description card;
    struct mt_live_run *run = mt_torch_run_of(device);
    if (run != NULL && mt_live_run_device(run) != NULL)
        return mt_live_run_held_bytes(run);
    return memtrace_torch_describe(NULL, &card) == MT_OK ? card.context_bytes : 0;
}

void memtrace_torch_communicate(int device, int what, int ranks)
{
    static const mt_outside_part parts[] = {[MEMTRACE_TORCH_COMMUNICATOR] = MT_PART_NCCL_FIRST,
                                            [MEMTRACE_TORCH_RING] = MT_PART_NCCL_RING,
                                            [MEMTRACE_TORCH_PEER] = MT_PART_NCCL_PEER};
    struct mt_torch_memory *memory;
    assert(what >= 0 && what < (int)(sizeof parts / sizeof parts[0]));
    if (mt_torch_simulated() != NULL && mt_torch_memory_for(device, &memory) == MT_OK)
        (void)mt_live_run_hold(mt_torch_memory_run(memory), parts[what], ranks);
}

int memtrace_torch_knows_nccl(void)
{
    struct mt_card card;
    struct mt_outside unused;
    return mt_torch_simulated() != NULL && mt_device_find_card(mt_torch_simulated(), &card) == MT_OK &&
           mt_card_outside(&card, MT_PART_NCCL_RING, 2, &unused);
}

/* All of it may be on the host, so it reduces no memory of the allocator. */
void memtrace_torch_movable(int device, const char *holder, uint64_t bytes)
{
    struct mt_torch_memory *memory;
    const struct mt_outside outside = {
        .kind = MT_OUTSIDE_LIBRARY, .name = holder, .bytes = bytes, .low_bytes = 0, .high_bytes = bytes};
    if (mt_torch_simulated() != NULL && mt_torch_memory_for(device, &memory) == MT_OK)
        mt_live_run_outside(mt_torch_memory_run(memory), &outside);
}

int memtrace_torch_counters(int device, uint64_t out[MEMTRACE_TORCH_COUNTERS])
{
    struct mt_alloc *alloc = mt_torch_alloc_of(device);
    struct mt_alloc_stats stats = {0};
    _Static_assert(MT_COUNTED_COUNT * MT_POOL_ROWS * 3 + 2 == MEMTRACE_TORCH_COUNTERS, "all counters have a place");
    if (alloc != NULL)
        mt_alloc_stats(alloc, &stats);
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

/* ---- the history of requests ---- */

static struct mt_lock history_lock = MT_LOCK(MT_RANK_LEAF);
static struct memtrace_torch_past history; /* guarded by the lock */

/* Does nothing on a real card, so that it costs no time there. */
void mt_torch_note_request(int64_t bytes)
{
    if (mt_torch_simulated() == NULL)
        return;
    mt_lock_take(&history_lock);
    history.requests = history.requests * MEMTRACE_TORCH_HISTORY_FACTOR + (uint64_t)bytes + 1;
    history.request_count++;
    mt_lock_give(&history_lock);
}

void mt_torch_note_free(int64_t bytes)
{
    if (mt_torch_simulated() == NULL)
        return;
    mt_lock_take(&history_lock);
    history.frees += ((uint64_t)bytes + 1) * MEMTRACE_TORCH_HISTORY_FACTOR;
    mt_lock_give(&history_lock);
}

void memtrace_torch_history(struct memtrace_torch_past *out)
{
    mt_lock_take(&history_lock);
    *out = history;
    mt_lock_give(&history_lock);
}
