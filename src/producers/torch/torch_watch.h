/* Watches PyTorch's own allocator. Its reports become foreign memory in the card's trace.
 *
 *   TraceEntry ALLOC ────────▶ kept by the thread ──┐  requested bytes, label
 *   report, the same address ───────────────────────┴▶ a block, with its allocated bytes; the totals are compared
 *   FREE_REQUESTED ──────────▶ the block's end; PyTorch decreases its allocated bytes at the same moment
 *   SEGMENT_* ───────────────▶ reserved memory
 *   OOM ─────────────────────▶ a refused request
 *
 * PyTorch makes both calls under its lock of the card and holds the lock from the entry to the report. So this code
 * must not call PyTorch or wait for Python's lock.
 *
 * Threads: any. */
#pragma once

#include "producers/torch/memtrace_torch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An entry of PyTorch's trace. For OOM, `address` is the card's free memory in bytes. */
struct mt_torch_entry {
    int action, device;
    uint64_t address, bytes, stream;
    uint64_t first, second; /* the pair of numbers of the private pool; both 0: none */
};

/* Returns the ABI that memtrace_torch_watch was given. */
const struct memtrace_torch_abi *mt_torch_watch_abi(void);

/* Begins to watch, as memtrace_torch_watch, which also finds PyTorch's parts. */
int mt_torch_watch_begin(const struct memtrace_torch_abi *given, const char *trace_path, const char *name);

/* Records an entry. */
void mt_torch_watch_entry(const struct mt_torch_entry *entry);

/* Records a report of a block: `bytes` were allocated, or freed if negative. */
void mt_torch_watch_report(int device, uint64_t address, int64_t bytes, uint64_t allocated, uint64_t reserved);

/* Replaces a function of library `owner` in the calls of one other library. Fails with MT_NO_DEVICE, and sets
 * `*out_original` to NULL, if either library is not loaded, the first does not call the function, or none of its calls
 * can be redirected. */
int mt_torch_call_replace(const char *library, const char *owner, const char *symbol, void *replacement,
                          void **out_original);

#ifdef __cplusplus
}
#endif
