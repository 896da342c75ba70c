/* The state behind the functions of memtrace_torch.h: settings, the cards in use, steps and phases. There is one for
 * the process, since these functions have no argument for it.
 *
 * Threads: any. */
#pragma once

#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_memory.h"

enum { MT_TORCH_MOST_CARDS = 64 };

/* Allocates a block of a card with the calling thread's label. Opens the card if it is not in use yet.
 * memtrace_torch_alloc throws if this fails. */
mt_status mt_torch_take(int64_t bytes, int device, mt_torch_stream stream, mt_addr *out);

/* True if this process was forked from one that used the library. Threads of the parent may have held any lock. */
bool mt_torch_is_child(void);

/* Returns the memory of a card in use; NULL for other cards, and in a child of fork. */
struct mt_torch_memory *mt_torch_memory_of(int device);

/* Returns the run of a card in use; NULL for other cards, and in a child of fork. */
struct mt_live_run *mt_torch_run_of(int device);

/* Returns the allocator of a card in use, if it is ours; NULL otherwise. */
struct mt_alloc *mt_torch_alloc_of(int device);

/* Returns the memory of the next card in use, from number *device on, and sets *device behind it; NULL if there is
 * none: for (int i = 0; (memory = mt_torch_next(&i)) != NULL;) The second returns its run. */
struct mt_torch_memory *mt_torch_next(int *device);
struct mt_live_run *mt_torch_next_run(int *device);

/* Starts watching PyTorch's own allocator. From now on memory_of opens no card with our allocator. `trace_path` is the
 * trace of the first card in use; further cards insert -cudaN before the extension. NULL: the path that memtrace record
 * has set. Fails with MT_USAGE if both are missing, or a card is in use. */
mt_status mt_torch_begin_watching(const char *trace_path, const char *name);

/* Returns the memory of a watched card; the first call opens its trace. NULL if nothing is watched, or memtrace record
 * records another card only. */
struct mt_torch_memory *mt_torch_watched(int device);

/* Emits an event that is not about memory into all traces. */
void mt_torch_mark(mt_event_kind kind, uint64_t value, mt_span_id span);

/* Gives the block at the address another span and category. False if none begins there. */
bool mt_torch_relabel(uint64_t address, uint32_t span, int category);

/* Counts a free of a block that was not allocated here. */
void mt_torch_count_unknown_free(void);
uint64_t mt_torch_unknown_frees(void);

/* Counts a report of PyTorch whose totals differ from the sums of its earlier reports. */
void mt_torch_count_difference(void);

/* Returns the names that all cards share. Not in a child. */
struct mt_torch_names *mt_torch_names_of_all(void);

/* Resets the library to its state at the start of the process. For tests, while no other thread uses it. */
void mt_torch_forget(void);

/* Allocates a block for a tensor, like mt_torch_take. */
mt_status mt_torch_take_shaped(int64_t bytes, int device, struct mt_torch_pooled_stream stream,
                               const struct memtrace_torch_shape *shape, mt_addr *out);

/* Finds the memory of a card. Opens the card if it is not in use yet. */
mt_status mt_torch_memory_for(int device, struct mt_torch_memory **out);

/* Returns the spelling of the simulated device that replaces every card; NULL for real cards. */
const char *mt_torch_simulated(void);

/* Add a request and a free to the history that memtrace_torch_history returns. */
void mt_torch_note_request(int64_t bytes);
void mt_torch_note_free(int64_t bytes);
