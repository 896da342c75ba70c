/* The event record: everything that an allocator does, 64 bytes at a time, without a pointer in it. */
#ifndef MT_BASE_EVENT_H
#define MT_BASE_EVENT_H

#include "base/label.h"

#include <stdbool.h>

#define MT_EVENT_KINDS(X)                                                                                              \
    X(SEGMENT_MAP, "segment_map")     /* a segment began, or grew: segment, address, offset, block_bytes taken */      \
    X(SEGMENT_UNMAP, "segment_unmap") /* and shrank, or ended: the same fields of what was given back */               \
    X(ALLOC, "alloc")                 /* a block was handed out: all fields but value */                               \
    X(FREE, "free")                   /* and came back: the fields of its alloc */                                     \
    X(OOM, "oom")                     /* nothing could be handed out: requested_bytes, label, span */                  \
    X(SPAN_BEGIN, "span_begin")       /* span */                                                                       \
    X(SPAN_END, "span_end")           /* span */                                                                       \
    X(STEP_BEGIN, "step_begin")       /* value: the step's number, from 0 */                                           \
    X(STEP_END, "step_end")           /* value: the step's number */                                                   \
    X(PHASE, "phase")                 /* value: the mt_phase that begins */

#define X(name, text) MT_EVENT_##name,
typedef enum mt_event_kind { MT_EVENT_KINDS(X) MT_EVENT_KIND_COUNT } mt_event_kind;
#undef X

const char *mt_event_kind_name(mt_event_kind kind);

/* Invariants: sequence grows by 1 from 0 within a run, and time_ns never shrinks; block_bytes >= requested_bytes;
 * address = the segment's address + offset.
 *
 * A segment is a range of addresses, of which parts have memory. The first segment_map of its number begins it, at
 * offset 0 unless the range was somebody else's and had its beginning elsewhere; later ones add memory where there was
 * none; segment_unmap takes from what there is; the one that takes the last byte ends it. A block lies in what has
 * memory. Reserved is what was mapped less what was unmapped. */
struct mt_event {
    uint64_t sequence;
    uint64_t time_ns; /* the device's clock, from the start of the run */
    mt_addr address;
    union {
        uint64_t requested_bytes; /* what the caller asked for */
        uint64_t value;           /* kinds that are not about memory */
    };
    uint64_t block_bytes; /* what it got; of segment_map and segment_unmap, what was taken and given back */
    uint64_t offset;      /* of the block, or of what was mapped or unmapped, in its segment */
    uint32_t segment;     /* birth number, from 0 */
    mt_label_id label;
    mt_span_id span;
    uint16_t kind; /* mt_event_kind */
    mt_stream stream;
};

enum { MT_NO_STEP = -1 };

/* One kernel that a device ran, the op that launched it (the span, phase, category and op of its label) and the step in
 * which that happened. */
struct mt_kernel {
    uint64_t start_ns, end_ns; /* on the clock of the events */
    const char *name;          /* as the compiler spelled it; borrowed for the call */
    int64_t step;              /* MT_NO_STEP: outside of one */
    mt_label_id label;         /* 0: launched by nobody that we know */
    uint32_t stream;           /* the driver's number */
};

/* How ops used a block, told when it is about to be freed. A block goes by the sequence of its alloc event, since its
 * address may be another's by now; a moment is the sequence of the last event before it. */
struct mt_use {
    uint64_t block;              /* which is live */
    uint32_t reads, writes;      /* operands of ops; both 0: never used, and the moments below are 0 */
    uint64_t first, last;        /* first and last use */
    uint64_t idle_from, idle_to; /* the longest pause between two uses, in events; equal: none */
    uint64_t copied_from;        /* the block, live or not, of which it was made a copy in another precision; 0: none */
    bool unread;                 /* what was written last was read by nobody */
};

_Static_assert(sizeof(struct mt_event) == 64, "an event is one cache line");

#endif
