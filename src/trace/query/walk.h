/* A walk through a run, event by event, for export in another form. Only the labels, the spans, the stacks and the live
 * blocks are held in memory, however long the run.
 *
 *   events of the run ──▶ walk, which keeps the live blocks ──▶ one event after another, complete: a free has the fields
 *                                                             of its alloc
 *
 * A trace may be anybody's: an event that names a label, a span, a stack or a segment that does not exist is
 * MT_BAD_TRACE. Frees of blocks that are not live are passed over, as everywhere. Threads: one at a time. */
#pragma once

#include "base/text.h"
#include "trace/query/blocks.h"

/* A span of the run. Texts as in trace.h. */
struct mt_span_row {
    uint32_t parent;         /* 0: the root, whose row is of "" */
    const char *name, *path; /* "w1", "model.layers.7.ffn.w1" */
};

/* A call stack: its innermost frame, and the stack of the caller. Texts as in trace.h. */
struct mt_stack_row {
    uint32_t parent;             /* 0: nothing called the frame */
    const char *function, *file; /* file "": not known */
    uint64_t line;               /* 0: not known */
};

/* Reads the call stacks of a run: out_rows[number], where number 0 is none. Every parent is below its stack's
 * number. */
mt_status mt_trace_stacks(struct mt_trace *trace, const struct mt_run *run, struct mt_stack_row **out_rows,
                          size_t *out_count);

/* Reads the number of the call stack of a request, an alloc or a refusal; 0: not recorded. */
mt_status mt_trace_event_stack(struct mt_trace *trace, const struct mt_run *run, int64_t event, uint32_t *out);

/* True for a file of Python that is neither PyTorch's, nor another package's, nor Python's own. */
bool mt_stack_file_is_own(const char *file);

/* Returns the innermost frame of the program's own Python; without any, the innermost frame whose line is known; NULL
 * if there is none. */
const struct mt_stack_row *mt_stack_own(const struct mt_stack_row *stacks, size_t count, uint32_t stack);

/* Adds its file and line, "train.py:41"; nothing if there is none. */
void mt_stack_line(const struct mt_stack_row *stacks, size_t count, uint32_t stack, struct mt_text *out);

/* Sets lines[i] to that line of the request of events[i]; "" for event 0, and where no stack was recorded. The trace
 * keeps the texts. */
mt_status mt_trace_lines(struct mt_trace *trace, const struct mt_run *run, const int64_t *events, size_t count,
                         const char **lines);

/* Adds all frames, the innermost first: "forward model.py:12; main train.py:41". */
void mt_stack_frames(const struct mt_stack_row *stacks, size_t count, uint32_t stack, struct mt_text *out);

/* One event. Fields that its kind does not have are 0. */
struct mt_walk_event {
    int64_t n; /* position in the run, from 0 */
    mt_event_kind kind;
    uint64_t time_ns;     /* the device's clock */
    int64_t id;           /* alloc, free, relabel: the position of the alloc in the run */
    uint64_t alloc_ns;    /* alloc, free, relabel: the time of the alloc */
    mt_addr address;      /* alloc, free, relabel, segment kinds */
    uint64_t block_bytes; /* of the block, with rounding; segment kinds: mapped or unmapped */
    uint64_t offset;      /* in the segment */
    uint64_t value;       /* alloc, free, oom, relabel: requested bytes; of a step or phase, its number */
    uint32_t segment, label;
    uint32_t span;                /* of the request; span kinds: that began or ended */
    uint32_t old_label, old_span; /* relabel: what the block had until then */
    uint32_t stack;               /* alloc, oom: of the request; 0: not recorded */
    mt_stream stream;
};

struct mt_walk;

/* Begins a walk, which borrows both. The caller ends *out, which is NULL after a failure. */
mt_status mt_walk_begin(struct mt_trace *trace, const struct mt_run *run, struct mt_walk **out);

/* Reads the next event. After the last, *out_more is false and *out untouched. */
mt_status mt_walk_next(struct mt_walk *walk, struct mt_walk_event *out, bool *out_more);

/* Return the labels, spans and stacks by number, borrowed. Numbers in events are below the counts. */
const struct mt_label_row *mt_walk_labels(const struct mt_walk *walk, size_t *out_count);
const struct mt_span_row *mt_walk_spans(const struct mt_walk *walk, size_t *out_count);
const struct mt_stack_row *mt_walk_stacks(const struct mt_walk *walk, size_t *out_count);

/* Returns the span of a label. */
uint32_t mt_walk_label_span(const struct mt_walk *walk, uint32_t label);

/* Begins the walk anew, with nothing live. */
void mt_walk_rewind(struct mt_walk *walk);

/* Returns the alloc events of the blocks that are live now, by address. The caller frees them. */
struct mt_walk_event *mt_walk_live(const struct mt_walk *walk, size_t *out_count);

void mt_walk_end(struct mt_walk *walk); /* may be NULL */

/* Reads the numbers of the segments whose memory was mapped or unmapped in pieces, ascending. */
mt_status mt_trace_growing_segments(struct mt_trace *trace, const struct mt_run *run, uint32_t **out_numbers,
                                    size_t *out_count);

/* Finds the event after which the run holds what it held at its end: the last one or, if no block was left by then, the
 * last that took memory, was refused, or ended a step. first_event - 1: there is none. */
mt_status mt_trace_last_state(struct mt_trace *trace, const struct mt_run *run, int64_t *out_event);

/* Visits the kernels of a run, by start. The row is valid during the call. If `visit` fails, that ends the query. */
typedef mt_status (*mt_launch_visit)(void *context, const struct mt_launch_row *launch);
mt_status mt_trace_launches_visit(struct mt_trace *trace, const struct mt_run *run, mt_launch_visit visit,
                                  void *context);
