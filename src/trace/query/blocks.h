/* The rows from which analysis and the timeline page are computed: the blocks of a run, their labels and uses, the
 * segments, and the marks in between.
 *
 *   labels[block.label] ◀── blocks, by alloc_event ──▶ uses[i] of blocks[i]
 *
 * Moments are event ids. Ownership, failures and threads as in trace.h. */
#pragma once

#include "base/event.h"
#include "trace/query/trace.h"

/* A label. Equal texts of one trace have equal pointers. */
struct mt_label_row {
    const char *category, *role, *op, *phase, *dtype, *shape;
    const char *span;        /* "model.layers.7.ffn.w1" */
    const char *place;       /* the same with "*" for the layer's number: equal for alike blocks of all layers */
    int layer;               /* from 0; -1: outside of one */
    const char *role_source; /* as mt_role_source_name; "": not stored */
};

/* Reads the labels of a run: out_rows[number]. Number 0, which no label has, is a row of "". */
mt_status mt_trace_labels(struct mt_trace *trace, const struct mt_run *run, struct mt_label_row **out_rows,
                          size_t *out_count);

/* One block. Invariants: alloc_event < free_event unless that is 0; block_bytes >= requested_bytes;
 * label < the number of labels; segment < the number of segments. */
struct mt_block_row {
    int64_t alloc_event, free_event; /* event.id; free_event 0: not freed within the range of the query */
    uint64_t alloc_ns, free_ns;      /* the device's clock, from the start of the run; free_ns 0: as free_event */
    uint64_t requested_bytes;        /* as asked */
    uint64_t block_bytes;            /* with rounding */
    uint64_t offset;                 /* in its segment */
    uint32_t segment;
    uint32_t label; /* the last that it has within the range of the query */
    mt_stream stream;
};

/* True if the block is live after `event`. */
static inline bool mt_block_is_live(const struct mt_block_row *block, int64_t event)
{
    return block->alloc_event <= event && (block->free_event == 0 || block->free_event > event);
}

/* Reads the blocks that were live at some moment of first_event <= id <= last_event, by alloc_event: those that were
 * live before, from the nearest checkpoint, then those that were allocated in the range. The range is cut to the run.
 * The block_bytes sum to less than 2^63 (otherwise MT_BAD_TRACE), so no sum of sizes or of differences between them
 * overflows. About 200 ns an event. */
mt_status mt_trace_blocks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                          struct mt_block_row **out_rows, size_t *out_count);

/* What happens to the block of a visited row, which is numbered from 0. */
struct mt_block_change {
    size_t row;
    int64_t event;
    uint64_t time_ns;
    uint32_t label; /* of a relabel */
};

typedef enum mt_block_rows {
    MT_ROW_A_BLOCK, /* a relabel changes a row */
    MT_ROW_A_LABEL  /* a relabel ends a row, and begins the next one of the same block, with the other label */
} mt_block_rows;

struct mt_block_visitor {
    mt_block_rows rows;
    void *context;
    void (*begin)(void *context, const struct mt_block_row *row); /* free_event is 0; valid during the call */
    void (*end)(void *context, const struct mt_block_change *change);
    void (*relabel)(void *context, const struct mt_block_change *change);
};

/* Visits the blocks of a run, event by event: in host memory are only those that are live. Fails as mt_trace_blocks, by
 * then with some rows visited. */
mt_status mt_trace_blocks_visit(struct mt_trace *trace, const struct mt_run *run,
                                const struct mt_block_visitor *visitor);

/* Reads the blocks that are live after `event`, by alloc_event; free_event and free_ns are 0. Reads from the nearest
 * checkpoint on: milliseconds, however long the run. */
mt_status mt_trace_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_block_row **out_rows,
                        size_t *out_count);

/* The uses of a block. A moment is the id of the last event before the use, so a block that is freed directly after its
 * last use has last = free_event - 1. */
struct mt_use_row {
    bool known;                 /* false: the program did not record uses, and the rest is 0 */
    uint32_t reads, writes;     /* number of ops that read and wrote it */
    int64_t first, last;        /* first and last use; 0: never used */
    int64_t idle_from, idle_to; /* the longest pause between two uses; 0: fewer than two */
    int64_t copied_from;        /* alloc_event of the block of which it is a copy in another precision; 0: none */
    bool unread;                /* nothing read it after the last write */
};

/* Reads the uses of blocks, which are ordered by alloc_event: out[i] of blocks[i]. `out` is all zero, and stays so
 * where no uses were recorded: such rows take no host memory. */
mt_status mt_trace_uses(struct mt_trace *trace, const struct mt_run *run, const struct mt_block_row *blocks,
                        size_t count, struct mt_use_row *out);

/* Visits the uses of all blocks of a run, by the alloc_event of the block. They are as in the file: check them. */
typedef mt_status (*mt_use_visit)(void *context, int64_t alloc_event, const struct mt_use_row *use);
mt_status mt_trace_uses_visit(struct mt_trace *trace, const struct mt_run *run, mt_use_visit visit, void *context);

/* Fails with MT_BAD_TRACE unless the moments are in order, and between the block's alloc and its free; free_event 0:
 * the end of the run. */
mt_status mt_use_check(const struct mt_use_row *use, const struct mt_run *run, int64_t alloc_event, int64_t free_event);

/* Reads the call stacks that asked for blocks, which are ordered by alloc_event: out[i] is the number of the stack of
 * blocks[i] (walk.h), below `stack_count`; 0: not recorded. `out` is all zero, as above. */
mt_status mt_trace_callers(struct mt_trace *trace, const struct mt_run *run, const struct mt_block_row *blocks,
                           size_t count, size_t stack_count, uint32_t *out);

/* Visits the call stacks, from 1, of all allocs of a run that have one, in order. */
typedef void (*mt_caller_visit)(void *context, int64_t alloc_event, int64_t stack);
mt_status mt_trace_callers_visit(struct mt_trace *trace, const struct mt_run *run, mt_caller_visit visit,
                                 void *context);

/* A segment: memory that the allocator took from the device. Invariant: rows[i].number = i. */
struct mt_segment_row {
    uint32_t number; /* of birth, from 0 */
    mt_stream stream;
    uint64_t address;
    uint64_t bytes;                       /* up to the end of the last part that ever had memory */
    int64_t mapped_event, unmapped_event; /* that began and ended it; unmapped_event 0: mapped at the end of the run */
    const char *pool;                     /* the private pool that has it, as "private pool (1, 0)"; "": none */
};

/* Reads all segments of a run, by number. */
mt_status mt_trace_segments(struct mt_trace *trace, const struct mt_run *run, struct mt_segment_row **out_rows,
                            size_t *out_count);

/* A part of a segment that one event mapped and one unmapped, or none. Memory that is unmapped in pieces is a part for
 * each piece. Invariants: segment < the number of segments; mapped_event < unmapped_event unless that is 0. In a sound
 * trace, parts that have memory at the same time do not overlap, and the sum of their bytes is the reserved memory. */
struct mt_part_row {
    uint32_t segment;
    uint64_t offset, bytes;               /* in the segment */
    int64_t mapped_event, unmapped_event; /* unmapped_event 0: mapped at the end of the run */
};

/* True if the part has memory after `event`. */
static inline bool mt_part_has_memory(const struct mt_part_row *part, int64_t event)
{
    return part->mapped_event <= event && (part->unmapped_event == 0 || part->unmapped_event > event);
}

/* Reads all parts of the segments of a run, by segment, then offset, then mapped_event. Their bytes sum to less than
 * 2^63 (otherwise MT_BAD_TRACE), and so does each offset with its bytes. */
mt_status mt_trace_parts(struct mt_trace *trace, const struct mt_run *run, struct mt_part_row **out_rows,
                         size_t *out_count);

/* An event that changes no memory: of a step, a phase or a span, or a refused request. */
struct mt_mark_row {
    int64_t event;
    uint64_t time_ns;   /* the device's clock, from the start of the run */
    mt_event_kind kind; /* step_begin, step_end, phase, span_begin, span_end, oom */
    uint64_t value;     /* a step's number, a phase's mt_phase, an oom's requested bytes */
    const char *span;   /* path; "": none */
    uint32_t label;     /* of an oom; otherwise 0 */
    mt_stream stream;   /* of an oom */
};

/* Reads the marks with first_event <= id <= last_event, in order. */
mt_status mt_trace_marks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                         struct mt_mark_row **out_rows, size_t *out_count);

/* The sums over the blocks of one label, in block_bytes. */
struct mt_label_sum {
    uint64_t allocations, allocated_bytes; /* of the whole run */
    uint64_t live_blocks, live_bytes;      /* at its peak of allocated bytes; over all labels these sum to the peak */
};

/* Reads the sums by the number of the label, as many as mt_trace_labels reads. Reads every event of the run once. */
mt_status mt_trace_label_sums(struct mt_trace *trace, const struct mt_run *run, struct mt_label_sum **out_sums,
                              size_t *out_count);

/* Finds the first and the last event of a step. If the run ended within it, the last is the run's. Fails with MT_USAGE
 * if there is no such step. */
mt_status mt_trace_step_events(struct mt_trace *trace, const struct mt_run *run, int64_t step, int64_t *out_first,
                               int64_t *out_last);

/* Visits all events of a run in order: the time of each, in nanoseconds of the device's clock, and what it is if it is
 * a mark. An id without an event has the time of the one before. The mark is valid during the call. */
struct mt_moment_visitor {
    void *context;
    void (*time)(void *context, uint64_t time_ns);
    void (*mark)(void *context, const struct mt_mark_row *mark);
};
mt_status mt_trace_moments_visit(struct mt_trace *trace, const struct mt_run *run,
                                 const struct mt_moment_visitor *visitor);

/* A kernel that ran. */
struct mt_launch_row {
    uint64_t start_ns, duration_ns; /* the device's clock, from the start of the run */
    const char *name;               /* in full */
    uint32_t label;                 /* of the op that launched it; 0: not known */
    uint32_t stream;                /* the driver's number */
};
