/* What a snapshot's events say, told as our own: from what there was before the first of them.
 *
 *   state in the end ──backwards along the events──▶ state in the beginning ──▶ map, take
 *                                                    events, forwards ────────▶ map, unmap, take, give ──▶ mt_foreign
 *
 * A snapshot tells the bytes that were asked for. What a block had of its segment, with rounding and the remainders that are
 * too small to be split off, is told only of those that live in the end; of the others it follows from where the next
 * block lay, by the rules of PyTorch's allocator.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_TORCH_REPLAY_H
#define MT_TRACE_IMPORT_TORCH_REPLAY_H

#include "trace/import/torch_snapshot.h"
#include "trace/store/foreign.h"

/* A block that somebody asked for. */
struct mt_torch_request {
    uint64_t requested_bytes;
    const struct mt_value *frames;      /* of who asked; may be none */
    const struct mt_torch_event *event; /* NULL: it was live before the first event */
};

/* Who knows what blocks are for. */
struct mt_torch_reader {
    void *context;
    int64_t start_us; /* what the times of events count from */
    /* Before what an event says is told: for steps, phases and the like. Optional. */
    void (*moment)(void *context, const struct mt_torch_event *event, uint64_t time_ns);
    /* The block's label, which is not 0, and span. */
    void (*label)(void *context, const struct mt_torch_request *request, mt_label_id *out_label, mt_span_id *out_span);
};

/* What became of the snapshot. Invariant: the events of all actions are those of the snapshot. */
struct mt_torch_tally {
    uint64_t events[MT_TORCH_ACTION_COUNT];
    uint64_t blocks_before, requested_before; /* live before the first event, and what was asked for them */
    uint64_t freed_before;                    /* of these blocks, those that were freed in the recording */
    uint64_t segments_before, reserved_before;
    bool ends_refused; /* nothing was taken after the last request that was refused */
};

/* Tells everything to `foreign`, which has been told nothing. What precedes the reader's start is told as of it. */
void mt_torch_replay(const struct mt_torch_snapshot *snapshot, const struct mt_torch_reader *reader,
                     struct mt_foreign *foreign, struct mt_torch_tally *out);

#endif
