/* The caching allocator.
 *
 *   device ──reserve──▶ segment ──split──▶ block ──▶ caller
 *                          │                 ▲
 *                          └── free blocks, by (stream, pool) and size ── merge with free neighbours
 *
 * It takes segments from the device, hands out blocks, keeps what comes back for reuse, and tells a sink everything
 * that it does, in one order, under one lock.
 *
 * Two policies behind one interface: `torch` follows the rules of PyTorch's caching allocator, so that what PyTorch
 * would reserve can be predicted without it; `tight` finds a block in constant time and reserves less.
 *
 * No decision depends on a raw address: ties break by (bytes, segment birth number, offset). So a device with nothing
 * behind its addresses gives the trace that a card would give.
 *
 * Threads: every function may be called from any thread, except create and destroy. A block belongs to whoever took
 * it until it is given back. */
#ifndef MT_ALLOC_ALLOC_H
#define MT_ALLOC_ALLOC_H

#include "base/sink.h"
#include "device/device.h"

typedef enum mt_policy { MT_POLICY_TIGHT, MT_POLICY_TORCH } mt_policy;

/* As settings spell it: "tight", "torch". */
const char *mt_policy_name(mt_policy policy);

/* How an allocator behaves; mt_alloc_settings_parse("") gives the defaults. */
struct mt_alloc_settings {
    mt_policy policy;
    uint64_t max_split_bytes;     /* torch: blocks from this size on are never split; UINT64_MAX: no such limit */
    int roundup_power2_divisions; /* torch: sizes are rounded up to this many steps between powers of two; 0: off */
    double gc_threshold; /* torch: share of the capacity above which idle segments are released first; 0: off */
};

/* Reads "policy=torch,max_split=200MiB,roundup_power2_divisions=4,gc_threshold=0.8". "" is the default. An unknown key
 * or value is MT_USAGE with the list of what there is. */
mt_status mt_alloc_settings_parse(const char *text, struct mt_alloc_settings *out);

/* Writes them back in the same spelling, every setting of the policy named. */
struct mt_text;
void mt_alloc_settings_format(const struct mt_alloc_settings *settings, struct mt_text *out);

/* For people: the policy, and of its settings those that are not as they are by themselves. Reads back as the same. */
void mt_alloc_settings_format_short(const struct mt_alloc_settings *settings, struct mt_text *out);

/* What a policy makes of a request that nothing cached serves.
 * Invariant: requested <= block_bytes <= segment_bytes. */
struct mt_alloc_need {
    uint64_t block_bytes;       /* the request, rounded up */
    uint64_t segment_bytes;     /* the least segment that is taken from the device for it */
    uint64_t small_limit_bytes; /* blocks up to this size lie in segments of their own, those above it in others */
};

/* False, and *out untouched, for a request that no arithmetic holds. */
bool mt_alloc_need(const struct mt_alloc_settings *settings, uint64_t requested_bytes, struct mt_alloc_need *out);

struct mt_alloc;
struct mt_block;

/* Borrows the device and the sink, which must outlive it; copies the settings. */
mt_status mt_alloc_create(struct mt_device *device, const struct mt_sink *sink,
                          const struct mt_alloc_settings *settings, struct mt_alloc **out);

/* Gives every segment back to the device. Blocks that are still out die with it; the sink is told of the memory without
 * any, and so keeps them as live. */
void mt_alloc_destroy(struct mt_alloc *alloc);

/* Hands out a block of at least `bytes`, for work on `stream`. `span` and `label` come from mt_alloc_intern_*. MT_USAGE
 * if bytes is 0. MT_OUT_OF_MEMORY if neither cached nor device memory suffices, after cached segments were released and
 * the device asked again: then an oom event was emitted, the message tells what was asked, what is live, reserved and
 * cached, stats.last_refusal tells more, and the allocator goes on as before. What the device says, in its words, if it
 * fails otherwise: then no event tells of it, and the request may be made again. *out is NULL unless MT_OK. */
mt_status mt_alloc_take(struct mt_alloc *alloc, uint64_t bytes, mt_stream stream, mt_label_id label, mt_span_id span,
                        struct mt_block **out);

/* Gives a block back. It is reused for later work on the same stream. NULL is allowed. */
void mt_alloc_give(struct mt_alloc *alloc, struct mt_block *block);

/* Says that work of another stream uses the block, too. When it is given back, its own stream's later work begins after
 * what `stream` has queued by then, so that nobody's bytes are written over; nobody waits for that on the host. */
void mt_alloc_use_on(struct mt_alloc *alloc, struct mt_block *block, mt_stream stream);

/* Says that a block is for something else from now on: a product became a gradient. In the trace that is a free and an
 * alloc of the same place, and both count as one would think. */
void mt_alloc_relabel(struct mt_alloc *alloc, struct mt_block *block, mt_label_id label, mt_span_id span);

/* Where a block begins; stays the same while it is out. */
mt_addr mt_block_address(const struct mt_block *block);
uint64_t mt_block_requested_bytes(const struct mt_block *block);

/* The sequence of the event that told of its handing out: what it is called in struct mt_use. */
uint64_t mt_block_sequence(const struct mt_block *block);

/* Gives every segment, and every page of a segment that can shrink, of which no block is taken back to the device. */
void mt_alloc_release_cached(struct mt_alloc *alloc);

/* The sink's interning, under the lock that orders everything. */
mt_label_id mt_alloc_intern_label(struct mt_alloc *alloc, const struct mt_label *label);
mt_span_id mt_alloc_intern_span(struct mt_alloc *alloc, mt_span_id parent, const char *name);
mt_category mt_alloc_intern_category(struct mt_alloc *alloc, const char *name);

/* Emits an event that is not about memory (span_begin, span_end, step_begin, step_end, phase), in order with the
 * rest. */
void mt_alloc_mark(struct mt_alloc *alloc, mt_event_kind kind, uint64_t value, mt_span_id span);

/* Hands a kernel that a device ran to the sink, if that wants kernels, in order with the events. */
void mt_alloc_kernel(struct mt_alloc *alloc, const struct mt_kernel *kernel);

/* Events that were emitted so far: what the next one's sequence will be. Takes no lock: while other threads allocate it
 * is a number that was right a moment ago. */
uint64_t mt_alloc_events(const struct mt_alloc *alloc);

/* Tells the sink, if it wants to know, how a block was used that is about to be given back. */
void mt_alloc_use(struct mt_alloc *alloc, const struct mt_use *use);

/* Equal for two moments after which equal calls are served with equal blocks. Takes time proportional to the number of
 * blocks. Labels, times and sequence numbers do not count. */
uint64_t mt_alloc_fingerprint(struct mt_alloc *alloc);

mt_status mt_alloc_flush(struct mt_alloc *alloc);

/* Counters of one category, or of all. Invariant: allocated >= requested; peaks >= what they are peaks of. */
struct mt_alloc_count {
    uint64_t requested_bytes; /* live, as asked */
    uint64_t allocated_bytes; /* live, with rounding */
    uint64_t blocks;          /* live */
    uint64_t peak_requested_bytes;
    uint64_t peak_allocated_bytes;
    uint64_t total_allocs; /* ever */
};

/* A request that was not met. */
struct mt_alloc_refusal {
    uint64_t requested_bytes;                /* 0: every request was met */
    uint64_t released_bytes;                 /* of which no block was taken, given back to the device in vain */
    uint64_t live_bytes[MT_MOST_CATEGORIES]; /* allocated, then */
    mt_label_id label;
    mt_span_id span;
};

struct mt_alloc_stats {
    struct mt_alloc_count all;
    struct mt_alloc_count category[MT_MOST_CATEGORIES];
    uint64_t reserved_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t segments;
    uint64_t largest_free_bytes; /* of the free blocks */
    uint64_t ooms;
    uint64_t planned_requests;   /* that got the place that a plan has for them (plan.h) */
    uint64_t unplanned_requests; /* that got another while a plan was followed, or after it was given up */
    struct mt_alloc_refusal last_refusal;
};

void mt_alloc_stats(struct mt_alloc *alloc, struct mt_alloc_stats *out);

/* Lets every peak begin anew from what there is now. */
void mt_alloc_reset_peaks(struct mt_alloc *alloc);

/* Walks every segment and block, re-derives every counter and index from them, and compares: MT_FAILED with the first
 * difference. For tests; takes time proportional to the number of blocks. */
mt_status mt_alloc_check(struct mt_alloc *alloc);

#endif
