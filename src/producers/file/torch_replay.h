/* Converts the events of a snapshot to ours, starting from the memory and blocks before the first of them.
 *
 *   state at the end ──backwards along the events──▶ state at the beginning ──▶ map, take
 *                                                    events, forwards ────────▶ map, unmap, take, give ──▶ mt_foreign
 *
 * An event has the requested bytes. The bytes of the block, which include rounding and remainders too small to split
 * off, are known only for blocks that are live at the end. For other blocks they follow from the address of the next
 * block, by the rules of PyTorch's allocator.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"
#include "trace/store/foreign.h"

/* A request for a block. */
struct mt_torch_request {
    uint64_t address, requested_bytes;
    const struct mt_value *frames;      /* the call stack; may be none */
    const struct mt_torch_event *event; /* NULL: the block was live before the first event */
};

/* Gives blocks their labels. */
struct mt_torch_labeler {
    void *context;
    int64_t start_us; /* the time at which times of events begin to count */

    /* Called before an event is replayed, to emit steps, phases and the like. Optional. */
    void (*moment)(void *context, const struct mt_torch_event *event, uint64_t time_ns);

    /* Sets the block's label, which is not 0, and its span. */
    void (*label)(void *context, const struct mt_torch_request *request, mt_label_id *out_label, mt_span_id *out_span);

    /* Returns the call stack of the request, 0 if none is known. Optional. */
    mt_stack_id (*stack)(void *context, const struct mt_torch_request *request);
};

/* Counts of a replay. Invariant: the events of all actions sum to the events of the snapshot. */
struct mt_torch_tally {
    uint64_t events[MT_TORCH_ACTION_COUNT];
    struct mt_torch_before before; /* except for `recorded` */
    bool ends_refused;             /* no block was allocated after the last refused request */
    struct mt_torch_refusal refusal;
};

/* Replays all events into `foreign`, which must be fresh. An event before the labeler's start counts as at the
 * start. */
void mt_torch_replay(const struct mt_torch_snapshot *snapshot, const struct mt_torch_labeler *labeler,
                     struct mt_foreign *foreign, struct mt_torch_tally *out);
