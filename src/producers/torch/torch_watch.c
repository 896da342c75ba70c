#include "producers/torch/torch_watch.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "producers/torch/torch_library.h"
#include "producers/torch/torch_operator.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HOLDERS = 32, HOLDER_BITS = 8, DEVICE_BITS = 8, ROUND_BYTES = 512 };

/* Memory that CUDA functions allocated and no trace entry claimed, by address. Invariants: totals[device][h] is the sum
 * of the pieces of holder h on the device; is_changed[device] is true if a total has changed since it was stored. */
static struct outside {
    struct mt_lock lock;
    bool is_created;
    atomic_bool is_changed[MT_TORCH_MOST_CARDS];
    struct mt_number_map bytes;   /* of a piece */
    struct mt_number_map holders; /* device << HOLDER_BITS | index of the holder */
    char *names[MOST_HOLDERS];
    uint32_t holder_count;
    uint64_t totals[MT_TORCH_MOST_CARDS][MOST_HOLDERS], stored[MT_TORCH_MOST_CARDS][MOST_HOLDERS];
} outside = {.lock = MT_LOCK(MT_RANK_OUTSIDE)};

/* Set before PyTorch's first report, and the same for each watch of a process, so reports read it without a lock. */
static struct memtrace_torch_abi abi;

/* The thread's last block, until PyTorch reports it. Its label, span and stack are numbers of its card's trace. */
static _Thread_local struct pending {
    const struct mt_torch_memory *memory; /* of the card; NULL: there is no block */
    int device;
    struct mt_foreign_block block;
} pending;

const struct memtrace_torch_abi *mt_torch_watch_abi(void)
{
    return &abi;
}

/* ---- memory outside ---- */

/* Returns the number of a holder. Copies the name of a new one. Holders beyond the maximum share the last number. */
static uint32_t holder_number(const char *holder)
{
    uint32_t i = 0;
    while (i < outside.holder_count && strcmp(outside.names[i], holder) != 0)
        i++;
    if (i == MOST_HOLDERS)
        return MOST_HOLDERS - 1;
    if (i == outside.holder_count)
        outside.names[outside.holder_count++] = mt_host_strdup(holder);
    return i;
}

/* Returns the kind of a holder: a library has the name of its file. */
static mt_outside_kind kind_of(const char *holder)
{
    if (strncmp(holder, "libnccl.so", 10) == 0)
        return MT_OUTSIDE_NCCL;
    return strstr(holder, ".so") != NULL ? MT_OUTSIDE_LIBRARY : MT_OUTSIDE_OTHER;
}

/* Ends a piece, and returns its bytes; 0 if there is none. The lock is held. */
static uint64_t end_piece(uint64_t address)
{
    uint64_t bytes = 0, holder = 0;
    if (!outside.is_created || !mt_number_map_take(&outside.bytes, address, &bytes))
        return 0;
    (void)mt_number_map_take(&outside.holders, address, &holder);
    uint64_t *total = &outside.totals[holder >> HOLDER_BITS][holder & ((1u << HOLDER_BITS) - 1)];
    assert(*total >= bytes);
    *total -= bytes;
    outside.is_changed[holder >> HOLDER_BITS] = true;
    return bytes;
}

void memtrace_torch_outside_take(int device, uint64_t address, uint64_t bytes, const char *holder)
{
    if (device < 0 || device >= MT_TORCH_MOST_CARDS || bytes == 0 || address == 0 || mt_torch_is_child() ||
        mt_host_is_exhausted())
        return;
    mt_lock_take(&outside.lock);
    if (!outside.is_created) {
        mt_number_map_create(&outside.bytes);
        mt_number_map_create(&outside.holders);
        outside.is_created = true;
    }
    (void)end_piece(address);
    uint32_t number = holder_number(holder);
    mt_number_map_put(&outside.bytes, address, bytes);
    mt_number_map_put(&outside.holders, address, (uint64_t)device << HOLDER_BITS | number);
    outside.totals[device][number] += bytes;
    outside.is_changed[device] = true;
    mt_lock_give(&outside.lock);
}

void memtrace_torch_outside_give(uint64_t address)
{
    if (mt_torch_is_child())
        return;
    mt_lock_take(&outside.lock);
    (void)end_piece(address);
    mt_lock_give(&outside.lock);
}

/* Ends the pieces that PyTorch's allocator reports as its own. */
static void claim(uint64_t address, uint64_t bytes)
{
    uint64_t piece = 1;
    mt_lock_take(&outside.lock);
    for (uint64_t end = address + bytes; address < end && piece > 0; address += piece)
        piece = end_piece(address);
    mt_lock_give(&outside.lock);
}

/* Stores the totals that have changed. Called at the next block, since PyTorch reports memory as its own only after the
 * call of CUDA that allocated it. */
static void store_outside(struct mt_live_run *run, int device)
{
    if (!atomic_exchange_explicit(&outside.is_changed[device], false, memory_order_relaxed))
        return;
    mt_lock_take(&outside.lock);
    for (uint32_t i = 0; i < outside.holder_count; i++)
        if (outside.totals[device][i] != outside.stored[device][i]) {
            outside.stored[device][i] = outside.totals[device][i];
            mt_live_run_outside(run, &(struct mt_outside){.kind = kind_of(outside.names[i]),
                                                          .name = outside.names[i],
                                                          .bytes = outside.stored[device][i]});
        }
    mt_lock_give(&outside.lock);
}

/* ---- entries ---- */

/* Returns the number of an entry's stream, for notes. A private pool's part of a stream has its own number. */
static uint64_t stream_of(struct mt_torch_memory *memory, const struct mt_torch_entry *entry)
{
    if (entry->first == 0 && entry->second == 0)
        return entry->stream;
    const struct mt_pool_owner owner = mt_torch_memory_pool_owner(memory);
    return mt_private_pool_watched(&owner, entry->stream, entry->first, entry->second);
}

/* Returns the block of an entry, with the calling thread's label. */
static struct mt_foreign_block describe(struct mt_torch_memory *memory, const struct mt_torch_entry *entry)
{
    const struct mt_foreign_block block = {.address = entry->address,
                                           .requested_bytes = entry->bytes,
                                           .stream = stream_of(memory, entry),
                                           .stack = mt_torch_memory_stack(memory)};
    struct mt_torch_names *names = mt_torch_names_of_all();
    struct mt_torch_label label = mt_torch_operator_label(names);
    if (mt_torch_operator_gets_workspace(names, &label, entry->bytes))
        label = mt_torch_label_of_cublas(names);
    return mt_torch_memory_label(memory, block, &label);
}

/* Records the thread's block with these allocated bytes, unless its watch has ended. */
static void take_pending(uint64_t allocated_bytes)
{
    struct mt_torch_memory *memory = mt_torch_memory_of(pending.device);
    if (memory != NULL && memory == pending.memory) {
        pending.block.block_bytes = allocated_bytes;
        mt_live_note_take(mt_torch_memory_run(memory), &pending.block);
    }
    pending.memory = NULL;
}

/* Keeps a block until its report. If the report of the previous block is missing, that block is recorded with PyTorch's
 * minimum rounding. */
static void keep(struct mt_torch_memory *memory, const struct mt_torch_entry *entry)
{
    if (pending.memory != NULL) {
        mt_torch_count_difference();
        take_pending((pending.block.requested_bytes + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES);
    }
    store_outside(mt_torch_memory_run(memory), entry->device);
    pending = (struct pending){.memory = memory, .device = entry->device, .block = describe(memory, entry)};
}

static void map(struct mt_torch_memory *memory, const struct mt_torch_entry *entry)
{
    struct mt_live_run *run = mt_torch_memory_run(memory);
    const uint64_t stream = stream_of(memory, entry);
    claim(entry->address, entry->bytes);
    if (entry->action == abi.segment_map)
        mt_live_note_growth(run, entry->address, entry->bytes, stream);
    else
        mt_live_note_map(run, entry->address, entry->bytes, stream);
}

static void refuse(struct mt_torch_memory *memory, const struct mt_torch_entry *entry)
{
    const struct mt_foreign_block request = describe(memory, entry);
    struct mt_live_run *run = mt_torch_memory_run(memory);
    mt_live_note_refusal(run, &request);
    mt_live_run_measure(run, "oom:device_free", MT_NO_STEP, (double)entry->address);
}

/* True if the entry is about memory. A snapshot adds an entry for each card, used or not. */
static bool is_about_memory(const struct mt_torch_entry *entry)
{
    const int known[] = {abi.alloc,        abi.free_requested, abi.segment_alloc,
                         abi.segment_free, abi.segment_map,    abi.segment_unmap,
                         abi.oom};
    bool is_known = false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        is_known |= entry->action == known[i];
    return is_known;
}

void mt_torch_watch_entry(const struct mt_torch_entry *entry)
{
    struct mt_torch_memory *memory = is_about_memory(entry) ? mt_torch_watched(entry->device) : NULL;
    if (memory == NULL)
        return;
    struct mt_live_run *run = mt_torch_memory_run(memory);
    if (entry->action == abi.alloc)
        keep(memory, entry);
    else if (entry->action == abi.free_requested)
        mt_live_note_give(run, entry->address);
    else if (entry->action == abi.segment_alloc || entry->action == abi.segment_map)
        map(memory, entry);
    else if (entry->action == abi.segment_free || entry->action == abi.segment_unmap)
        mt_live_note_unmap(run, entry->address, entry->bytes);
    else if (entry->action == abi.oom)
        refuse(memory, entry);
}

void mt_torch_watch_report(int device, uint64_t address, int64_t bytes, uint64_t allocated, uint64_t reserved)
{
    struct mt_torch_memory *memory = mt_torch_watched(device);
    if (memory == NULL)
        return;
    struct mt_live_run *run = mt_torch_memory_run(memory);
    if (bytes > 0 && pending.memory == memory && pending.block.address == address)
        take_pending((uint64_t)bytes);
    const struct mt_live_sums sums = mt_live_note_sums(run);
    if (sums.allocated_bytes != allocated || sums.reserved_bytes != reserved)
        mt_torch_count_difference();
}

/* ---- beginning ---- */

void memtrace_torch_found_segment(int device, uint64_t address, uint64_t bytes, uint64_t stream, int is_expandable)
{
    struct mt_torch_memory *memory = mt_torch_watched(device);
    const struct mt_torch_entry entry = {.action = is_expandable ? abi.segment_map : abi.segment_alloc,
                                         .device = device,
                                         .address = address,
                                         .bytes = bytes,
                                         .stream = stream};
    if (memory != NULL)
        map(memory, &entry);
}

void memtrace_torch_found_block(int device, uint64_t address, uint64_t requested, uint64_t allocated, uint64_t stream)
{
    struct mt_torch_memory *memory = mt_torch_watched(device);
    struct mt_foreign_block block = {
        .address = address, .requested_bytes = requested, .block_bytes = allocated, .stream = stream};
    const struct mt_torch_label label = mt_torch_label_now();
    if (memory == NULL)
        return;
    block = mt_torch_memory_label(memory, block, &label);
    mt_live_note_take(mt_torch_memory_run(memory), &block);
}

int mt_torch_watch_begin(const struct memtrace_torch_abi *given, const char *trace_path, const char *name)
{
    MT_TRY(mt_torch_begin_watching(trace_path, name));
    if (memcmp(&abi, given, sizeof abi) != 0)
        abi = *given;
    mt_lock_take(&outside.lock);
    memset(outside.stored, 0, sizeof outside.stored); /* in the new traces */
    for (int i = 0; i < MT_TORCH_MOST_CARDS; i++)
        outside.is_changed[i] = true;
    mt_lock_give(&outside.lock);
    return MT_OK;
}
