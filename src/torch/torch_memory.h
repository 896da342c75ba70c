/* The memory of one card: our allocator, what of it PyTorch holds by address, and the trace of it.
 *
 * Threads: any, except open and close. */
#ifndef MT_TORCH_TORCH_MEMORY_H
#define MT_TORCH_TORCH_MEMORY_H

#include "alloc/alloc.h"
#include "torch/torch_card.h"
#include "torch/torch_label.h"
#include "torch/torch_names.h"
#include "torch/torch_trace.h"

struct mt_torch_memory;

/* What a card's memory begins with. Borrowed for the call, but for the names, which outlive it. */
struct mt_torch_memory_settings {
    struct mt_alloc_settings alloc;
    const char *trace_path; /* NULL: nothing is recorded */
    const char *program;    /* a setting of the trace's run */
    struct mt_torch_names *names;
};

/* As mt_torch_card_open and mt_torch_trace_open. */
mt_status mt_torch_memory_open(int ordinal, const struct mt_torch_memory_settings *settings,
                               struct mt_torch_memory **out);

/* What PyTorch still holds dies with it. May be NULL. */
void mt_torch_memory_close(struct mt_torch_memory *memory);

/* A block for work of `stream`, by its address. NULL for 0 bytes, which is no failure. MT_OUT_OF_MEMORY as mt_alloc_take. */
mt_status mt_torch_memory_take(struct mt_torch_memory *memory, uint64_t bytes, mt_torch_stream stream,
                               const struct mt_torch_label *label, mt_addr *out);

/* In the calls about a block by its address, false says that none begins there. */
bool mt_torch_memory_give(struct mt_torch_memory *memory, mt_addr address);
bool mt_torch_memory_find(struct mt_torch_memory *memory, mt_addr address, uint64_t *out_bytes);

/* As mt_alloc_use_on. A stream too many is one that everything is waited for. */
bool mt_torch_memory_use_on(struct mt_torch_memory *memory, mt_addr address, mt_torch_stream stream);

/* As mt_alloc_relabel. */
bool mt_torch_memory_relabel(struct mt_torch_memory *memory, mt_addr address, const struct mt_torch_label *label);

/* Emits an event that is not about memory into the trace, if there is one. */
void mt_torch_memory_mark(struct mt_torch_memory *memory, mt_event_kind kind, uint64_t value, mt_span_id span);

/* Tells the trace the name of a category that the names have. In the order of the categories. */
void mt_torch_memory_category(struct mt_torch_memory *memory, const char *name);

uint64_t mt_torch_memory_capacity(struct mt_torch_memory *memory);
void mt_torch_memory_limit(struct mt_torch_memory *memory, double fraction);
struct mt_alloc *mt_torch_memory_alloc(struct mt_torch_memory *memory);
struct mt_torch_trace *mt_torch_memory_trace(struct mt_torch_memory *memory);

#endif
