/* The caching allocator.
 *
 *   device ──reserve──▶ segment ──split──▶ block ──▶ caller
 *                          │                 ▲
 *                          └── free blocks, by (stream, pool) and size ── coalesce with free neighbours
 *
 * It gets segments from the device, divides them into blocks, caches freed blocks, and emits an event to its sink for
 * each of these actions, in one order, under one lock.
 *
 * There are two policies behind one interface. `torch` has the rules of PyTorch's caching allocator, so that its
 * reserved memory can be predicted without PyTorch. `tight` finds a block in constant time and reserves less.
 *
 * No decision depends on an absolute address: ties are broken by bytes, then by the place of the segment
 * (address_space.h), then by offset. So a simulated device gives the same trace as a card.
 *
 * Any thread may call every function except create and destroy. A block belongs to the caller that allocated it until
 * it is freed. */
#pragma once

#include "alloc/alloc_settings.h"
#include "alloc/alloc_stats.h"
#include "alloc/stream_rules.h"
#include "base/sink.h"
#include "device/device.h"

/* The sizes that a policy derives from a request if no cached block fits.
 * Invariant: requested <= block_bytes <= segment_bytes. */
struct mt_alloc_need {
    uint64_t block_bytes;       /* the request, rounded up */
    uint64_t segment_bytes;     /* the smallest segment that the policy reserves for it */
    uint64_t small_limit_bytes; /* smaller and larger blocks than this have separate segments */
};

/* Sets *out to the sizes for a request; false, with *out unchanged, if they overflow. */
bool mt_alloc_need(const struct mt_alloc_settings *settings, uint64_t requested_bytes, struct mt_alloc_need *out);

struct mt_alloc;
struct mt_block;

/* Creates an allocator. Borrows the device and the sink, which must outlive it; copies the settings. */
mt_status mt_alloc_create(struct mt_device *device, const struct mt_sink *sink,
                          const struct mt_alloc_settings *settings, struct mt_alloc **out);

/* Returns every segment to the device. Live blocks are invalid afterwards. Their segments end without an event, so they
 * are live at the end of the trace. */
void mt_alloc_destroy(struct mt_alloc *alloc);

/* A request for a block of at least `bytes`, for work on `stream`. Label and span come from mt_alloc_intern_*. */
struct mt_alloc_request {
    uint64_t bytes;
    mt_stream stream;
    mt_label_id label;
    mt_span_id span;
    mt_stack_id stack; /* from the sink; 0: unknown */
};

/* Allocates a block. *out is NULL unless the result is MT_OK. Fails with
 * - MT_USAGE if request->bytes is 0;
 * - MT_OUT_OF_MEMORY if neither the cache nor the device has the memory, even after the cached segments were released.
 * Then an oom event was emitted, the message has the requested, live, cached and reserved bytes, and stats.last_refusal
 * has more. The allocator stays valid;
 * - the device's status and message if it fails for another reason. Then there is no event, and the request may be
 * repeated. */
mt_status mt_alloc_serve(struct mt_alloc *alloc, const struct mt_alloc_request *request, struct mt_block **out);

/* Like mt_alloc_serve, for a request without a stack. */
mt_status mt_alloc_take(struct mt_alloc *alloc, uint64_t bytes, mt_stream stream, mt_label_id label, mt_span_id span,
                        struct mt_block **out);

/* Frees a block, which later work on the same stream may reuse. NULL is allowed. */
void mt_alloc_give(struct mt_alloc *alloc, struct mt_block *block);

/* Adds `stream` to the block's users. When the block is freed, its own stream waits for the work that its users have
 * queued by then, so that memory is not overwritten while they read it. The host does not wait. */
void mt_alloc_use_on(struct mt_alloc *alloc, struct mt_block *block, mt_stream stream);

/* Gives a live block another label, as when a product becomes a gradient. It remains the same block in the trace, and
 * counts as an allocation only in its new category. Emits nothing if the label is the same. */
void mt_alloc_relabel(struct mt_alloc *alloc, struct mt_block *block, mt_label_id label, mt_span_id span);

/* Returns the address of a live block, which is constant. */
mt_addr mt_block_address(const struct mt_block *block);
uint64_t mt_block_requested_bytes(const struct mt_block *block);
mt_stream mt_block_stream(const struct mt_block *block);

/* A live block, for callers. Invariant: requested_bytes <= allocated_bytes. */
struct mt_block_view {
    mt_addr address;
    uint64_t requested_bytes, allocated_bytes;
    mt_stream stream;
    mt_label_id label;
    mt_span_id span;
};

/* Finds the live block that contains an address. False if there is none. Takes time proportional to the number of
 * segments, and of blocks in one. */
bool mt_alloc_find(struct mt_alloc *alloc, mt_addr address, struct mt_block_view *out);

/* Returns the sequence of the alloc event of a live block, which identifies it in struct mt_use. */
uint64_t mt_block_sequence(const struct mt_block *block);

/* Return the label and the span of a live block. */
mt_label_id mt_block_label(const struct mt_block *block);
mt_span_id mt_block_span(const struct mt_block *block);

/* Returns all cached memory to the device: idle segments, and the free pages of segments that are ranges. Keeps
 * segments if their stream's rules require it and, during a capture, those outside private pools. */
void mt_alloc_release_cached(struct mt_alloc *alloc);

/* Releases the cached memory of one stream. */
void mt_alloc_release_stream(struct mt_alloc *alloc, mt_stream stream);

/* Sets the rules of a stream's memory. */
void mt_alloc_set_rules(struct mt_alloc *alloc, mt_stream stream, const struct mt_stream_rules *rules);

/* Begin and end a capture of a CUDA graph; several may be in progress. Until the last one ends, no cached memory is
 * released for a request, and a freed block with other users is not reused, since PyTorch's allocator can't query
 * whether its users are done. Such blocks are free from the next request or release on. */
void mt_alloc_capture_begin(struct mt_alloc *alloc);
void mt_alloc_capture_end(struct mt_alloc *alloc);

/* A piece of a segment, passed to a visitor: a block or free memory. */
struct mt_alloc_piece {
    mt_addr segment_address, address;
    uint64_t bytes;
    uint64_t requested_bytes; /* 0: free */
    mt_stream stream;
    mt_pool pool;
    bool is_range;   /* its segment is a range of addresses */
    bool is_waiting; /* it was freed during a capture, and waits for its users */
};

/* Calls `visit` with each piece that has memory, by segment in order of birth, then by offset. Under the allocator's
 * lock: `visit` must not call its functions. */
void mt_alloc_visit(struct mt_alloc *alloc, void (*visit)(void *context, const struct mt_alloc_piece *piece),
                    void *context);

/* Allocates the block of request->bytes, a multiple of 512, that begins at `address`. A free piece with at least that
 * size must begin there, otherwise fails with MT_USAGE. */
mt_status mt_alloc_take_at(struct mt_alloc *alloc, const struct mt_alloc_request *request, mt_addr address,
                           struct mt_block **out);

/* Call the sink's functions, under the allocator's lock. */
mt_label_id mt_alloc_intern_label(struct mt_alloc *alloc, const struct mt_label *label);
mt_span_id mt_alloc_intern_span(struct mt_alloc *alloc, mt_span_id parent, const char *name);
mt_category mt_alloc_intern_category(struct mt_alloc *alloc, const char *name);

/* Emits an event without memory (span_begin, span_end, step_begin, step_end, phase), in order with the others. */
void mt_alloc_mark(struct mt_alloc *alloc, mt_event_kind kind, uint64_t value, mt_span_id span);

/* Passes a kernel that the device ran to the sink, if it accepts kernels, in order with the events. */
void mt_alloc_kernel(struct mt_alloc *alloc, const struct mt_kernel *kernel);

/* Returns the number of events so far, which is the sequence of the next one. Takes no lock: while other threads
 * allocate, the number may be outdated. */
uint64_t mt_alloc_events(const struct mt_alloc *alloc);

/* Passes the uses of a block that is about to be freed to the sink, if it accepts uses. */
void mt_alloc_use(struct mt_alloc *alloc, const struct mt_use *use);

/* Returns a hash of the state that affects later allocations: after two moments with equal hashes, equal calls get
 * equal blocks. Labels, times and sequences are not included. Takes time proportional to the number of blocks. */
uint64_t mt_alloc_fingerprint(struct mt_alloc *alloc);

/* Copies the counters. */
void mt_alloc_stats(struct mt_alloc *alloc, struct mt_alloc_stats *out);

/* Resets every peak to the current value of its counter. */
void mt_alloc_reset_peaks(struct mt_alloc *alloc);

/* Walks all segments and blocks, recomputes every counter and index, and compares. Fails with MT_FAILED and the first
 * difference. For tests: takes time proportional to the number of blocks. */
mt_status mt_alloc_check(struct mt_alloc *alloc);
