/* The memory of one card: a run in progress, and what it needs of PyTorch's labels and streams. Our allocator provides
 * the memory; or PyTorch's own does and is watched, and its blocks are notes.
 *
 * Threads: any, except for open and close. */
#pragma once

#include "producers/torch/torch_card.h"
#include "producers/torch/torch_label.h"
#include "producers/torch/torch_private_pool.h"
#include "run/live_run.h"

struct mt_torch_memory;
struct mt_record_request;
struct mt_process_card;

/* Settings of a card's memory. Borrowed for the call, except for the names, which must outlive the memory. */
struct mt_torch_memory_settings {
    struct mt_alloc_settings alloc;
    const char *trace_path;                  /* NULL: nothing is stored */
    const char *program;                     /* a setting of the trace's run */
    const char *simulated;                   /* the device that replaces the card; NULL: the card itself */
    const struct mt_record_request *request; /* gets the answer that the card has a run; NULL: nobody asked */
    struct mt_torch_names *names;
};

/* Opens a card and its trace. Fails as mt_torch_card_open and mt_live_run_open. */
mt_status mt_torch_memory_open(int ordinal, const struct mt_torch_memory_settings *settings,
                               struct mt_torch_memory **out);

/* Opens the trace of a card with PyTorch's own allocator. Copies its arguments but the names, which must outlive the
 * memory. Fails as mt_process_trace_open. */
mt_status mt_torch_memory_watch(const struct mt_record_request *request, const struct mt_process_card *card,
                                struct mt_torch_names *names, struct mt_torch_memory **out);

/* Frees the blocks that PyTorch still holds, too. `memory` may be NULL. */
void mt_torch_memory_close(struct mt_torch_memory *memory);

/* Returns the card's run, for all that needs no label. */
struct mt_live_run *mt_torch_memory_run(struct mt_torch_memory *memory);

/* Returns the card, if our allocator provides its memory, and its private pools. */
struct mt_torch_card *mt_torch_memory_card(struct mt_torch_memory *memory);
struct mt_private_pools *mt_torch_memory_pools(struct mt_torch_memory *memory);
struct mt_pool_owner mt_torch_memory_pool_owner(struct mt_torch_memory *memory);

/* Takes a block of our allocator for work of `stream`, of its pool, and returns its address; 0 for 0 bytes, which is no
 * failure. MT_OUT_OF_MEMORY as mt_alloc_serve. */
mt_status mt_torch_memory_take(struct mt_torch_memory *memory, uint64_t bytes, struct mt_torch_pooled_stream stream,
                               const struct mt_torch_label *label, mt_addr *out);

/* Takes the block that begins at an address; as mt_alloc_take_at. */
mt_status mt_torch_memory_take_at(struct mt_torch_memory *memory, uint64_t bytes, mt_addr address,
                                  const struct mt_torch_label *label);

/* Makes a stream a user of the block of our allocator at the address, as mt_live_run_use_on. If there are too many
 * streams, waits for all work of the card instead. */
bool mt_torch_memory_use_on(struct mt_torch_memory *memory, mt_addr address, mt_torch_stream stream);

/* Makes blocks kept that seemed to be temporary and were live through the two calls of a model before this one. With
 * PyTorch's own allocator, of the later calls only those count whose number is a power of two. Call it before each call
 * of a model. */
void mt_torch_memory_keep(struct mt_torch_memory *memory);

/* Gives a block of our allocator that seemed to be temporary or kept the role key-value cache. Later blocks of the same
 * op and span get it, too, if one dimension of their shape is longer. */
void mt_torch_memory_follow_cache(struct mt_torch_memory *memory, mt_addr address);

/* Gives the block another label. False if no block begins at the address. */
bool mt_torch_memory_relabel(struct mt_torch_memory *memory, mt_addr address, const struct mt_torch_label *label);

/* Does the same, and gives blocks that have the block's old label the new one, too, when mt_torch_memory_keep finds
 * them. */
bool mt_torch_memory_relabel_alike(struct mt_torch_memory *memory, mt_addr address, const struct mt_torch_label *label);

/* Gives the block at `to`, which the thread now casts from the one at `from`, the role weight cast if `from` is a
 * parameter. Only blocks of our allocator. */
void mt_torch_memory_cast(struct mt_torch_memory *memory, mt_addr to, mt_addr from);

/* Returns the block of a watched allocator as a note: adds label and span to it. */
struct mt_foreign_block mt_torch_memory_label(struct mt_torch_memory *memory, struct mt_foreign_block block,
                                              const struct mt_torch_label *label);

/* Returns the number of the calling thread's call stack in the card's trace; 0 if it is not known. */
mt_stack_id mt_torch_memory_stack(struct mt_torch_memory *memory);

/* Emits an event that is not about memory, as mt_live_run_mark. `span` is a number of the names. */
void mt_torch_memory_mark(struct mt_torch_memory *memory, mt_event_kind kind, uint64_t value, mt_span_id span);
