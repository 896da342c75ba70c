/* The caching allocator.
 *
 *   device ──reserve──▶ segment ──split──▶ block ──▶ caller
 *                          │                 ▲
 *                          └── free blocks, by (stream, pool) and size ── coalesce with free neighbours
 *
 * It takes segments from the device, hands out blocks, caches the blocks that come back, and emits an event to its sink for
 * each of these, in one order, under one lock.
 *
 * There are two policies behind one interface. `torch` has the rules of PyTorch's caching allocator, so that its
 * reserved memory can be predicted without it. `tight` finds a block in constant time and reserves less.
 *
 * No decision depends on a raw address: ties break by bytes, then by the place of the segment (address_space.h), then by
 * offset. So a device with nothing behind its addresses gives the same trace as a card.
 *
 * Any thread may call every function but create and destroy. A block belongs to the caller that took it until it is given
 * back. */
#pragma once

#include "alloc/alloc_settings.h"
#include "alloc/alloc_stats.h"
#include "alloc/stream_rules.h"
#include "base/sink.h"
#include "device/device.h"

/* The sizes that a policy derives from a request that no cached block serves.
 * Invariant: requested <= block_bytes <= segment_bytes. */
struct mt_alloc_need {
    uint64_t block_bytes;       /* the request, rounded up */
    uint64_t segment_bytes;     /* the least segment that is taken from the device for it */
    uint64_t small_limit_bytes; /* blocks up to this size have segments of their own, apart from larger ones */
};

/* Sets *out to the sizes for a request; false, and *out untouched, if they overflow. */
bool mt_alloc_need(const struct mt_alloc_settings *settings, uint64_t requested_bytes, struct mt_alloc_need *out);

struct mt_alloc;
struct mt_block;

/* Creates an allocator. Borrows the device and the sink, which must outlive it; copies the settings. */
mt_status mt_alloc_create(struct mt_device *device, const struct mt_sink *sink,
                          const struct mt_alloc_settings *settings, struct mt_alloc **out);

/* Gives every segment back to the device. Blocks that are still out are invalid afterwards. Their segments end without an
 * event, so the trace keeps them as live. */
void mt_alloc_destroy(struct mt_alloc *alloc);

/* A request for a block of at least `bytes`, for work on `stream`. Label and span come from mt_alloc_intern_*. */
struct mt_alloc_request {
    uint64_t bytes;
    mt_stream stream;
    mt_label_id label;
    mt_span_id span;
    mt_stack_id stack; /* of the sink; 0: not known */
};

/* Hands out a block. *out is NULL unless the result is MT_OK. Fails with
 * - MT_USAGE if request->bytes is 0;
 * - MT_OUT_OF_MEMORY if neither the cache nor the device has the memory, after the cached segments were released and the
 *   device was asked again. Then an oom event was emitted, the message has the bytes that were asked, live, cached and
 *   reserved, and stats.last_refusal has more. The allocator stays valid;
 * - the device's status and message if that fails otherwise. Then there is no event, and the request may be repeated. */
mt_status mt_alloc_serve(struct mt_alloc *alloc, const struct mt_alloc_request *request, struct mt_block **out);

/* Does the same for a request without a stack. */
mt_status mt_alloc_take(struct mt_alloc *alloc, uint64_t bytes, mt_stream stream, mt_label_id label, mt_span_id span,
                        struct mt_block **out);

/* Gives a block back, to be reused by later work on the same stream. NULL is allowed. */
void mt_alloc_give(struct mt_alloc *alloc, struct mt_block *block);

/* Makes `stream` a user of the block, beside the block's own stream. When the block is given back, its own stream waits for
 * the work that its users have queued by then, so that nothing is written over what they still read. The host does not
 * wait. */
void mt_alloc_use_on(struct mt_alloc *alloc, struct mt_block *block, mt_stream stream);

/* Gives a live block another label, as when a product becomes a gradient. It stays the same block in the trace, and counts as
 * an allocation of its new category alone. Nothing is emitted for the label that it has. */
void mt_alloc_relabel(struct mt_alloc *alloc, struct mt_block *block, mt_label_id label, mt_span_id span);

/* Returns the address of a live block, which does not change. */
mt_addr mt_block_address(const struct mt_block *block);
uint64_t mt_block_requested_bytes(const struct mt_block *block);
mt_stream mt_block_stream(const struct mt_block *block);

/* A live block, as callers see it. Invariant: requested_bytes <= allocated_bytes. */
struct mt_block_view {
    mt_addr address;
    uint64_t requested_bytes, allocated_bytes;
    mt_stream stream;
    mt_label_id label;
    mt_span_id span;
};

/* Finds the live block that holds an address, its first or any other. False if there is none. Takes time proportional to
 * the number of segments, and of blocks in one. */
bool mt_alloc_find(struct mt_alloc *alloc, mt_addr address, struct mt_block_view *out);

/* Returns the sequence of the alloc event of a live block, which identifies it in struct mt_use. */
uint64_t mt_block_sequence(const struct mt_block *block);

/* Return the label and the span of a live block. */
mt_label_id mt_block_label(const struct mt_block *block);
mt_span_id mt_block_span(const struct mt_block *block);

/* Gives all cached memory back to the device: idle segments, and the free pages of segments that are ranges. Leaves segments that
 * their stream's rules keep and, during a capture, those that are not of private pools. */
void mt_alloc_release_cached(struct mt_alloc *alloc);

/* Does the same for one stream. */
void mt_alloc_release_stream(struct mt_alloc *alloc, mt_stream stream);

/* Sets the rules of a stream's memory. */
void mt_alloc_set_rules(struct mt_alloc *alloc, mt_stream stream, const struct mt_stream_rules *rules);

/* Begin and end a capture of a CUDA graph; several may be under way. Until the last has ended, no cached memory is released for a
 * request, and a freed block with other users is not reused: the allocator of PyTorch can't ask a card whether its
 * users are done. Such blocks are free from the next request or release on. */
void mt_alloc_capture_begin(struct mt_alloc *alloc);
void mt_alloc_capture_end(struct mt_alloc *alloc);

/* A piece of a segment, as a walk finds it: a block or free memory. */
struct mt_alloc_piece {
    mt_addr segment_address, address;
    uint64_t bytes;
    uint64_t requested_bytes; /* 0: it is free */
    mt_stream stream;
    mt_pool pool;
    bool is_range;   /* its segment is a range of addresses */
    bool is_waiting; /* it was freed during a capture, and waits for its users */
};

/* Calls `visit` with each piece that has memory, by segment in order of birth, then by offset. Under the allocator's lock: `visit`
 * calls no function of it. */
void mt_alloc_visit(struct mt_alloc *alloc, void (*visit)(void *context, const struct mt_alloc_piece *piece),
                    void *context);

/* Hands out the block of request->bytes, a multiple of 512, that begins at `address`, where a free piece of at least that size begins.
 * MT_USAGE if there is none. */
mt_status mt_alloc_take_at(struct mt_alloc *alloc, const struct mt_alloc_request *request, mt_addr address,
                           struct mt_block **out);

/* Call the sink's functions, under the allocator's lock. */
mt_label_id mt_alloc_intern_label(struct mt_alloc *alloc, const struct mt_label *label);
mt_span_id mt_alloc_intern_span(struct mt_alloc *alloc, mt_span_id parent, const char *name);
mt_category mt_alloc_intern_category(struct mt_alloc *alloc, const char *name);

/* Emits an event that is not about memory (span_begin, span_end, step_begin, step_end, phase), in order with the others. */
void mt_alloc_mark(struct mt_alloc *alloc, mt_event_kind kind, uint64_t value, mt_span_id span);

/* Hands a kernel that the device ran to the sink, if that wants kernels, in order with the events. */
void mt_alloc_kernel(struct mt_alloc *alloc, const struct mt_kernel *kernel);

/* Returns the number of events so far, which is the sequence of the next. Takes no lock: while other threads allocate, the
 * number may be out of date. */
uint64_t mt_alloc_events(const struct mt_alloc *alloc);

/* Hands the uses of a block that is about to be given back to the sink, if that wants uses. */
void mt_alloc_use(struct mt_alloc *alloc, const struct mt_use *use);

/* Returns a number that is equal at two moments after which equal calls are served with equal blocks. Labels, times and
 * sequences do not count. Takes time proportional to the number of blocks. */
uint64_t mt_alloc_fingerprint(struct mt_alloc *alloc);

/* Copies the counters. */
void mt_alloc_stats(struct mt_alloc *alloc, struct mt_alloc_stats *out);

/* Sets every peak to the present value of its counter. */
void mt_alloc_reset_peaks(struct mt_alloc *alloc);

/* Walks every segment and block, derives every counter and index again, and compares. Fails with MT_FAILED and the first
 * difference. For tests: takes time proportional to the number of blocks. */
mt_status mt_alloc_check(struct mt_alloc *alloc);
