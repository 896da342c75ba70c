/* The raw material of answers: the blocks of a run, what their labels say, how they were used, and the marks in between.
 * Questions that no table answers (what would change the peak, what the timeline shows) are computed from these.
 *
 *   labels[block.label] ◀── blocks, by alloc_event ──▶ uses[i] of blocks[i]
 *
 * Moments are event ids. Ownership: arrays belong to the caller, free(); text as in trace.h.
 * Threads: one at a time. */
#ifndef MT_TRACE_BLOCKS_H
#define MT_TRACE_BLOCKS_H

#include "base/event.h"
#include "trace/query/trace.h"

/* What a label says. Equal texts of one trace have equal pointers. */
struct mt_label_row {
    const char *category, *role, *op, *phase, *dtype, *shape;
    const char *span;  /* "model.layers.7.ffn.w1" */
    const char *place; /* the same with "*" for the layer's number: what alike blocks of all layers share */
    int layer;         /* -1: outside of one */
};

/* The labels of a run by their number; number 0, which no label has, is a row of "". */
mt_status mt_trace_labels(struct mt_trace *trace, const struct mt_run *run, struct mt_label_row **out_rows,
                          size_t *out_count);

/* One block. Invariants: alloc_event < free_event unless that is 0; block_bytes >= requested_bytes;
 * label < the number of labels; segment < the number of segments. */
struct mt_block_row {
    int64_t alloc_event, free_event; /* free_event 0: not freed up to the end of what was asked for */
    uint64_t alloc_ns, free_ns;      /* the device's clock */
    uint64_t requested_bytes, block_bytes;
    uint64_t offset; /* in its segment */
    uint32_t segment, label;
    mt_stream stream;
};

/* Whether it is live after `event`. */
static inline bool mt_block_is_live(const struct mt_block_row *block, int64_t event)
{
    return block->alloc_event <= event && (block->free_event == 0 || block->free_event > event);
}

/* The blocks that were live at some moment of first_event <= id <= last_event, by alloc_event: those that were live
 * before it, from the nearest checkpoint, then those that were allocated in it. Of the whole run: run->first_event to
 * first_event + event_count - 1. Their block_bytes sum to less than 2^63 (otherwise MT_BAD_TRACE), so no sum of sizes or of
 * differences between them overflows. About 200 ns an event. */
mt_status mt_trace_blocks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                          struct mt_block_row **out_rows, size_t *out_count);

/* The blocks live after `event`, by alloc_event; free_event and free_ns are 0. From the nearest checkpoint: milliseconds,
 * however long the run. */
mt_status mt_trace_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_block_row **out_rows,
                        size_t *out_count);

/* How a block was used. A moment is the id of the last event before it, so a block that is freed directly after its last
 * use has last = free_event - 1. */
struct mt_use_row {
    bool known;                 /* false: its program did not say, and the rest is 0 */
    uint32_t reads, writes;     /* operands of ops */
    int64_t first, last;        /* first and last use; 0: never used */
    int64_t idle_from, idle_to; /* the longest pause between two uses; 0: fewer than two */
    int64_t copied_from;        /* alloc_event of the block of which it is a copy in another precision; 0: none */
    bool unread;                /* what was written last was read by nobody */
};

/* Fills out[i] for blocks[i], which are ordered by alloc_event. */
mt_status mt_trace_uses(struct mt_trace *trace, const struct mt_run *run, const struct mt_block_row *blocks,
                        size_t count, struct mt_use_row *out);

/* A segment. Invariant: rows[i].number = i. */
struct mt_segment_row {
    uint32_t number; /* of birth */
    mt_stream stream;
    uint64_t address;
    uint64_t bytes;                       /* up to the end of the last part that ever had memory */
    int64_t mapped_event, unmapped_event; /* that began and ended it; unmapped_event 0: still mapped at the end */
};

/* All segments of a run, by number. */
mt_status mt_trace_segments(struct mt_trace *trace, const struct mt_run *run, struct mt_segment_row **out_rows,
                            size_t *out_count);

/* What one event mapped in a segment and one unmapped, or none; of what was unmapped in pieces, each piece. Invariants:
 * segment < the number of segments; mapped_event < unmapped_event unless that is 0. Those of a sound trace that have
 * memory at the same time do not overlap, and their bytes are what is reserved then. */
struct mt_part_row {
    uint32_t segment;
    uint64_t offset, bytes;               /* in the segment */
    int64_t mapped_event, unmapped_event; /* unmapped_event 0: still mapped at the end */
};

/* Whether it has memory after `event`. */
static inline bool mt_part_has_memory(const struct mt_part_row *part, int64_t event)
{
    return part->mapped_event <= event && (part->unmapped_event == 0 || part->unmapped_event > event);
}

/* All parts of the segments of a run, by segment, then offset, then mapped_event. Their bytes sum to less than 2^63
 * (otherwise MT_BAD_TRACE), and so does each offset with its bytes. */
mt_status mt_trace_parts(struct mt_trace *trace, const struct mt_run *run, struct mt_part_row **out_rows,
                         size_t *out_count);

/* What happened that is not about memory: steps, phases, spans; and what could not be had. */
struct mt_mark_row {
    int64_t event;
    uint64_t time_ns;
    mt_event_kind kind; /* step_begin, step_end, phase, span_begin, span_end, oom */
    uint64_t value;     /* a step's number, a phase's mt_phase, an oom's requested bytes */
    const char *span;   /* path; "": none */
    uint32_t label;     /* of an oom; otherwise 0 */
    mt_stream stream;   /* of an oom */
};

/* The marks with first_event <= id <= last_event, in order. */
mt_status mt_trace_marks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                         struct mt_mark_row **out_rows, size_t *out_count);

/* What the blocks of one label add up to, in block_bytes. */
struct mt_label_sum {
    uint64_t allocations, allocated_bytes; /* of the whole run */
    uint64_t live_blocks, live_bytes;      /* of what was live at its peak of allocated bytes; these sum to the peak */
};

/* By the number of the label, as many as mt_trace_labels gives. Reads every event of the run once. */
mt_status mt_trace_label_sums(struct mt_trace *trace, const struct mt_run *run, struct mt_label_sum **out_sums,
                              size_t *out_count);

/* The first and the last event of a step; of one that the run ended within, the run's last. MT_USAGE if there is no such
 * step. */
mt_status mt_trace_step_events(struct mt_trace *trace, const struct mt_run *run, int64_t step, int64_t *out_first,
                               int64_t *out_last);

/* When each event with first_event <= id <= last_event was: out[i] of event first_event + i, in nanoseconds of the
 * device's clock. An id that has no event gets the time of the one before. The caller's. */
mt_status mt_trace_times(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                         uint64_t **out_times);

/* One kernel that ran. */
struct mt_launch_row {
    uint64_t start_ns, duration_ns; /* the clock of the events */
    const char *name;               /* in full */
    uint32_t label;                 /* number of its op's; 0: launched by nobody that is known */
    uint32_t stream;                /* the driver's number */
};

/* All kernels of a run, by start. */
mt_status mt_trace_launches(struct mt_trace *trace, const struct mt_run *run, struct mt_launch_row **out_rows,
                            size_t *out_count);

#endif
