/* A run told event by event, for whoever writes it down in another form. No more is held than what is live at the moment:
 * a run of any length needs the memory of its labels, its spans and its live blocks.
 *
 *   events of the run ──▶ walk, which keeps the live blocks ──▶ one event after another, complete: a free with what its
 *                                                             alloc said
 *
 * A trace may be anybody's: an event that names what there is not is MT_BAD_TRACE; frees of what is not live are passed
 * over, as everywhere. Threads: one at a time. */
#ifndef MT_TRACE_WALK_H
#define MT_TRACE_WALK_H

#include "trace/query/blocks.h"

/* A span of the run, by its number. Texts as in trace.h. */
struct mt_span_row {
    uint32_t parent; /* 0: the root, whose row is of "" */
    const char *name, *path;
};

/* The spans of a run by their number; number 0 is the root. Every parent is below its span's number. */
mt_status mt_trace_spans(struct mt_trace *trace, const struct mt_run *run, struct mt_span_row **out_rows,
                         size_t *out_count);

/* One event. What a kind does not speak of is 0. */
struct mt_walk_event {
    int64_t n; /* position in the run, from 0 */
    mt_event_kind kind;
    uint64_t time_ns;     /* the device's clock */
    int64_t id;           /* alloc, free: the position of the alloc */
    uint64_t alloc_ns;    /* free: when that was */
    mt_addr address;      /* alloc, free, segment kinds */
    uint64_t block_bytes; /* of the block; of segment kinds, of what was mapped or unmapped */
    uint64_t offset;      /* in the segment */
    uint64_t value;       /* alloc, free, oom: requested bytes; of a step or phase, its number */
    uint32_t segment, label;
    uint32_t span; /* who asked, or what began or ended */
    mt_stream stream;
};

struct mt_walk;

/* Borrows both until it ends. The caller's if MT_OK; until then, the trace is read as it is now. */
mt_status mt_walk_begin(struct mt_trace *trace, const struct mt_run *run, struct mt_walk **out);

/* The next event; *out_more is false after the last, and *out untouched. */
mt_status mt_walk_next(struct mt_walk *walk, struct mt_walk_event *out, bool *out_more);

/* What the events' numbers mean, borrowed. Numbers of events are below the counts. */
const struct mt_label_row *mt_walk_labels(const struct mt_walk *walk, size_t *out_count);
const struct mt_span_row *mt_walk_spans(const struct mt_walk *walk, size_t *out_count);

/* The span of a label. */
uint32_t mt_walk_label_span(const struct mt_walk *walk, uint32_t label);

/* Begins anew, with nothing live. */
void mt_walk_rewind(struct mt_walk *walk);

/* The alloc events of what is live now, by address; the caller's. */
struct mt_walk_event *mt_walk_live(const struct mt_walk *walk, size_t *out_count);

void mt_walk_end(struct mt_walk *walk); /* may be NULL */

/* The numbers of the segments whose memory came or went in pieces, ascending; the caller's. */
mt_status mt_trace_growing_segments(struct mt_trace *trace, const struct mt_run *run, uint32_t **out_numbers,
                                    size_t *out_count);

/* The kernels of a run, by start, one at a time; the row is valid during the call. A failure ends it. */
typedef mt_status (*mt_launch_visit)(void *context, const struct mt_launch_row *launch);
mt_status mt_trace_launches_visit(struct mt_trace *trace, const struct mt_run *run, mt_launch_visit visit,
                                  void *context);

#endif
