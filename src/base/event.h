/* The event: one thing that an allocator did, in 64 bytes without a pointer. */
#pragma once

#include "base/label.h"

#include <stdbool.h>

#define MT_EVENT_KINDS(X)                                                                                              \
    X(SEGMENT_MAP, "segment_map")     /* a segment began or grew: segment_address, segment, offset, block_bytes */     \
    X(SEGMENT_UNMAP, "segment_unmap") /* it shrank or ended: the same fields of what was given back */                 \
    X(ALLOC, "alloc")                 /* a block was handed out: requested_bytes and all below it */                   \
    X(FREE, "free")                   /* it came back: the same, but stack; label, span as last told */                \
    X(OOM, "oom")                     /* a request was refused: requested_bytes, label, span, stack */                 \
    X(SPAN_BEGIN, "span_begin")       /* span */                                                                       \
    X(SPAN_END, "span_end")           /* span */                                                                       \
    X(STEP_BEGIN, "step_begin")       /* value: the step's number, from 0 */                                           \
    X(STEP_END, "step_end")           /* value: the step's number */                                                   \
    X(PHASE, "phase")                 /* value: the mt_phase that begins */                                            \
    X(RELABEL, "relabel")             /* a live block has another purpose: its alloc's fields, but label, span, stack */

#define X(name, text) MT_EVENT_##name,
typedef enum mt_event_kind { MT_EVENT_KINDS(X) MT_EVENT_KIND_COUNT } mt_event_kind;
#undef X

const char *mt_event_kind_name(mt_event_kind kind);

/* Invariants: sequence increases by 1 from 0 within a run; time_ns never decreases; block_bytes >= requested_bytes. A
 * live block is known by its segment and offset; its address is the segment's address + offset.
 *
 * A segment is a range of addresses, and parts of it have memory. The first segment_map of its number begins it, at
 * offset 0 unless another program's range begins earlier. Later ones add memory where there was none. segment_unmap
 * takes memory away; the one that takes the last byte ends the segment. A block lies in addresses that have memory.
 * Reserved bytes are those mapped less those unmapped. */
struct mt_event {
    uint64_t sequence;
    uint64_t time_ns; /* on the device's clock, since the start of the run */
    union {
        uint64_t requested_bytes; /* of kinds that are about a block: as the caller asked */
        mt_addr segment_address;  /* of segment_map and segment_unmap: the address of offset 0 */
        uint64_t value;           /* of the others */
    };
    uint64_t block_bytes; /* of the block; of segment_map and segment_unmap, those taken and given back */
    uint64_t offset;      /* in the segment: of the block, or of what was mapped or unmapped */
    uint32_t segment;     /* birth number, from 0 */
    mt_label_id label;
    mt_span_id span;
    mt_stack_id stack; /* of the request; 0: not known */
    uint16_t kind;     /* mt_event_kind */
    mt_stream stream;
    uint32_t checksum; /* the ring's; 0 elsewhere */
};

enum { MT_NO_STEP = -1 };

/* A kernel that a device ran, with the op that launched it (the span, phase, category and op of its label) and the step
 * of the launch. */
struct mt_kernel {
    uint64_t start_ns, end_ns; /* on the clock of the events */
    const char *name;          /* as the compiler spelled it; borrowed for the call */
    int64_t step;              /* MT_NO_STEP: outside of one */
    mt_label_id label;         /* 0: the op is not known */
    uint32_t stream;           /* the driver's number */
};

/* The holders of memory that no allocator of the trace handed out. */
#define MT_OUTSIDE_KINDS(X)                                                                                            \
    X(CONTEXT, "context") /* the context and the code of CUDA */                                                       \
    X(LIBRARY, "library") /* libraries, for themselves */                                                              \
    X(NCCL, "nccl")       /* buffers of communication */                                                               \
    X(OTHER, "other")

#define X(name, text) MT_OUTSIDE_##name,
typedef enum mt_outside_kind { MT_OUTSIDE_KINDS(X) MT_OUTSIDE_KIND_COUNT } mt_outside_kind;
#undef X

const char *mt_outside_kind_name(mt_outside_kind kind);

/* Memory outside of the allocator: all that this holder has from the last event on, measured or estimated.
 * Invariant: of an estimate low_bytes <= bytes <= high_bytes; what was measured has neither. */
struct mt_outside {
    mt_outside_kind kind;
    const char *name; /* of the holder within its kind, "" for all of it; borrowed for the call */
    uint64_t bytes;
    uint64_t low_bytes, high_bytes; /* the range of an estimate; both 0: measured */
};

/* The uses of a block by ops, emitted just before it is freed. The sequence of its alloc event identifies the block,
 * since another may have its place by now. A moment is the sequence of the last event before it. */
struct mt_use {
    uint64_t block;              /* live */
    uint32_t reads, writes;      /* operands of ops; both 0: never used, and the moments below are 0 */
    uint64_t first, last;        /* first and last use */
    uint64_t idle_from, idle_to; /* the longest pause between two uses; equal: none */
    uint64_t copied_from;        /* the block, live or not, that it is a copy of in another precision; 0: none */
    bool unread;                 /* no op read what was written last */
};

/* Add a use at a moment, which is not before the last one. */
void mt_use_add_read(struct mt_use *use, uint64_t moment);
void mt_use_add_write(struct mt_use *use, uint64_t moment);

_Static_assert(sizeof(struct mt_event) == 64, "an event is one cache line");
