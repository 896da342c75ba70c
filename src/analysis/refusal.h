/* A request that was refused: what the device had left, and why what was reserved and free could not serve it.
 *
 *   ├────────────────── capacity ──────────────────┤
 *   ├────────── reserved ───────────┤──── left ────┤
 *   ├─────── live ───────┤── holes ─┤├──────── needed ─────────┤
 *                                                   ├─ short ──┤
 *
 * Before an allocator refuses it gives every segment without a block back to the device, so every hole lies between
 * blocks.
 *
 * Threads: any; an input is only read. */
#ifndef MT_WHATIF_REFUSAL_H
#define MT_WHATIF_REFUSAL_H

#include "analysis/advice.h"

/* Why a hole could not serve. */
typedef enum mt_hole_reason {
    MT_HOLE_TOO_SMALL,
    MT_HOLE_OTHER_POOL,   /* the request is small and its segment is for large blocks, or the other way round */
    MT_HOLE_OTHER_STREAM, /* it is kept for work on another stream */
    MT_HOLE_NOT_TAKEN,    /* large enough, but the policy did not take it */
    MT_HOLE_REASON_COUNT
} mt_hole_reason;

/* "too small", … */
const char *mt_hole_reason_name(mt_hole_reason reason);

/* Holes that could not serve for one reason. Invariant: largest_bytes <= bytes; is_small is of their segments. */
struct mt_hole_group {
    mt_hole_reason reason;
    mt_stream stream;
    bool is_small;
    uint64_t count, bytes, largest_bytes;
};

/* Invariants: reserved_bytes = allocated_bytes + hole_bytes; the groups sum to hole_bytes and hole_count, most bytes
 * first; short_bytes > 0 if the device is one that gives all of its capacity, namely
 * needed_bytes - (capacity_bytes - reserved_bytes), and otherwise 0; 0 < needed_bytes <= need.segment_bytes. */
struct mt_refusal {
    struct mt_mark_row mark; /* the oom: when, what bytes, of what label */
    struct mt_alloc_need need;
    uint64_t capacity_bytes, reserved_bytes, allocated_bytes;
    uint64_t given_back_bytes, given_back_segments; /* or parts of some, for this request, in vain */
    uint64_t hole_bytes, hole_count, largest_hole_bytes;
    bool grows;            /* a segment would have grown for it (growth.h); otherwise a new one been taken */
    uint64_t needed_bytes; /* of the device, by that */
    uint64_t short_bytes;
    uint64_t alike; /* requests in the window before it that were met, of the same size, and alike but for the layer */
    struct mt_hole_group *groups;
    size_t group_count;
};

/* The last refusal in the window, which must end with it: input->last_event is its event. MT_BAD_TRACE if no arithmetic
 * holds its size, MT_USAGE if there is none. Release in any case. */
mt_status mt_refusal_create(const struct mt_advice_input *input, struct mt_refusal *out);
void mt_refusal_release(struct mt_refusal *refusal);

#endif
