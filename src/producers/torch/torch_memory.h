/* The memory of one card, and its trace. Our allocator gives the memory, and the blocks that PyTorch holds are known by
 * address; or PyTorch's own allocator does and is watched, and what it tells is foreign memory.
 *
 *   our allocator ─┬─▶ the sink here ──▶ recorder, until the trace ends; then labels are interned and nothing is stored
 *   PyTorch's ─────┘
 *
 * The trace may end before the allocator does: programs free their last tensors after everything else.
 *
 * Threads: any, except for open and close. */
#ifndef MT_TORCH_TORCH_MEMORY_H
#define MT_TORCH_TORCH_MEMORY_H

#include "alloc/alloc.h"
#include "device/card_outside.h"
#include "producers/torch/torch_card.h"
#include "producers/torch/torch_label.h"
#include "trace/store/recorder.h"

struct mt_torch_memory;
struct mt_record_request;
struct mt_process_card;

/* Settings of a card's memory. Borrowed for the call, except for the names, which must outlive the memory. */
struct mt_torch_memory_settings {
    struct mt_alloc_settings alloc;
    const char *trace_path;                  /* NULL: nothing is stored */
    const char *program;                     /* a setting of the trace's run */
    const char *simulated;                   /* the device that is opened in the place of a card; NULL: a card */
    const struct mt_record_request *request; /* is answered that the card has a run; NULL: nobody is */
    struct mt_torch_names *names;
};

/* Opens a card and its trace. Fails as mt_torch_card_open and mt_recorder_open. */
mt_status mt_torch_memory_open(int ordinal, const struct mt_torch_memory_settings *settings,
                               struct mt_torch_memory **out);

/* Opens the trace of a card whose memory PyTorch's own allocator gives. Copies its arguments but the names, which must
 * outlive the memory. Fails as mt_process_trace_open. */
mt_status mt_torch_memory_watch(const struct mt_record_request *request, const struct mt_process_card *card,
                                struct mt_torch_names *names, struct mt_torch_memory **out);

/* Frees the blocks that PyTorch still holds, too. `memory` may be NULL. */
void mt_torch_memory_close(struct mt_torch_memory *memory);

/* ---- blocks of our allocator; a watched card has none ---- */

/* Takes a block for work of `stream` and returns its address; NULL for 0 bytes, which is no failure. MT_OUT_OF_MEMORY
 * as mt_alloc_take. */
mt_status mt_torch_memory_take(struct mt_torch_memory *memory, uint64_t bytes, mt_torch_stream stream,
                               const struct mt_torch_label *label, mt_addr *out);

/* The following calls return false if no block begins at the address. */

/* Gives back the block. */
bool mt_torch_memory_give(struct mt_torch_memory *memory, mt_addr address);

/* Sets *out_bytes to the requested bytes of the block. */
bool mt_torch_memory_find(struct mt_torch_memory *memory, mt_addr address, uint64_t *out_bytes);

/* Notes that a stream uses the block, as mt_alloc_use_on. If there are too many streams, waits for all work of the card
 * instead. */
bool mt_torch_memory_use_on(struct mt_torch_memory *memory, mt_addr address, mt_torch_stream stream);

/* Gives the block another label, as mt_alloc_relabel. Also of a watched card. */
bool mt_torch_memory_relabel(struct mt_torch_memory *memory, mt_addr address, const struct mt_torch_label *label);

/* Returns the allocator, for its statistics; NULL for a watched card. */
struct mt_alloc *mt_torch_memory_alloc(struct mt_torch_memory *memory);

/* Returns the bytes that may be reserved on the card. */
uint64_t mt_torch_memory_capacity(struct mt_torch_memory *memory);

/* Sets them to a fraction of the card's memory, as mt_device_limit. */
void mt_torch_memory_limit(struct mt_torch_memory *memory, double fraction);

/* ---- memory of PyTorch's allocator, of a watched card ---- */

/* A block as PyTorch's allocator hands it out. */
struct mt_torch_block {
    mt_addr address;
    uint64_t requested_bytes, allocated_bytes;
    mt_torch_stream stream;
    struct mt_torch_label label;
    mt_stack_id stack; /* of the request, of mt_torch_memory_stack; 0: not known */
};

/* Returns the number of the calling thread's call stack in the card's trace; 0 if it is not known. */
mt_stack_id mt_torch_memory_stack(struct mt_torch_memory *memory);

void mt_torch_memory_note_take(struct mt_torch_memory *memory, const struct mt_torch_block *block);
void mt_torch_memory_note_give(struct mt_torch_memory *memory, mt_addr address);

/* Note a refused request, of which only requested_bytes, stream and label count; and memory that the allocator takes
 * from the card or gives back. */
void mt_torch_memory_note_refusal(struct mt_torch_memory *memory, const struct mt_torch_block *request);
void mt_torch_memory_note_map(struct mt_torch_memory *memory, mt_addr address, uint64_t bytes, mt_torch_stream stream);
void mt_torch_memory_note_unmap(struct mt_torch_memory *memory, mt_addr address, uint64_t bytes);

/* Does the same for memory that is mapped into a range of addresses that PyTorch has reserved (expandable segments). The
 * range becomes one segment, which grows. */
void mt_torch_memory_note_growth(struct mt_torch_memory *memory, mt_addr address, uint64_t bytes,
                                 mt_torch_stream stream);

/* Adds what a part takes outside of the allocator on a simulated card to what its holder has, in a communicator of `ranks`
 * where it is NCCL's; the first communicator counts once. False if that is not known of the card. */
bool mt_torch_memory_hold(struct mt_torch_memory *memory, mt_outside_part part, int ranks);

/* Returns what the process holds of the card outside of the allocator: the context or, where more is known, all. */
uint64_t mt_torch_memory_held_bytes(struct mt_torch_memory *memory);

/* Notes all memory outside of the allocator that one holder has. */
void mt_torch_memory_note_outside(struct mt_torch_memory *memory, const struct mt_outside *outside);

/* The sums of what was noted, as PyTorch counts them. */
struct mt_torch_sums {
    uint64_t allocated_bytes, reserved_bytes;
};
struct mt_torch_sums mt_torch_memory_sums(struct mt_torch_memory *memory);

/* ---- the trace ---- */

/* Emits an event that is not about memory, if the trace is being written. */
void mt_torch_memory_mark(struct mt_torch_memory *memory, mt_event_kind kind, uint64_t value, mt_span_id span);

/* Adds a category to the trace. Must be called for all categories of the names, in their order. */
void mt_torch_memory_category(struct mt_torch_memory *memory, const char *name);

/* Stores a number with the run, if the trace is being written. */
void mt_torch_memory_measure(struct mt_torch_memory *memory, const char *name, int64_t step, double value);

/* Store a caveat of the run and the reason why it ended, if the trace is being written; as mt_recorder_caveat and
 * mt_recorder_ended_by. */
void mt_torch_memory_caveat(struct mt_torch_memory *memory, const struct mt_caveat *caveat);
void mt_torch_memory_ended_by(struct mt_torch_memory *memory, mt_ended_by reason);

/* Leaves the trace to the parent, in a forked child; as mt_recorder_disown. */
void mt_torch_memory_disown(struct mt_torch_memory *memory);

/* Ends the trace. Fails as mt_recorder_close. A second call does nothing. */
mt_status mt_torch_memory_end_trace(struct mt_torch_memory *memory, mt_run_state state);

#endif
