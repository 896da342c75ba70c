/* What the functions of memtrace_torch.h share: the cards in use. An interface of plain functions has one state a process;
 * it is here.
 *
 * Threads: any. */
#ifndef MT_TORCH_TORCH_LIBRARY_H
#define MT_TORCH_TORCH_LIBRARY_H

#include "torch/memtrace_torch.h"
#include "torch/torch_memory.h"

enum { MT_TORCH_MOST_CARDS = 64 };

/* A block of a card for the calling thread's label, as memtrace_torch_alloc, which throws what this returns. Opens the card
 * when it is first asked for something. */
mt_status mt_torch_take(int64_t bytes, int device, mt_torch_stream stream, mt_addr *out);

/* Whether this process was forked from one that had begun: other threads of that may have held any lock. */
bool mt_torch_is_child(void);

/* The memory of a card in use; NULL for others, and in a child of fork. */
struct mt_torch_memory *mt_torch_memory_of(int device);

/* Calls `visit` with each card in use. */
void mt_torch_each(void (*visit)(struct mt_torch_memory *memory, void *context), void *context);

/* For the card that is in use next; of one that is, at once. */
void mt_torch_limit(int device, double fraction);

/* Backward has come to this span, in whatever thread: in the traces the one before ends, and this one begins. It ends with the
 * phase. */
void mt_torch_mark_place(mt_span_id span);

/* Counts a free of what was not taken here. */
void mt_torch_count_unknown_free(void);
uint64_t mt_torch_unknown_frees(void);

/* What all cards know by one number. Not in a child. */
struct mt_torch_names *mt_torch_names_of_all(void);

/* Forgets everything that was configured, taken and named, as if nothing had been. For tests; nobody else calls meanwhile. */
void mt_torch_forget(void);

#endif
