/* What the questions share; for this folder and trace.c only. */
#ifndef MT_TRACE_QUERY_QUERY_H
#define MT_TRACE_QUERY_QUERY_H

#include "base/event.h"
#include "base/interner.h"
#include "trace/query/row_visitor.h"
#include "trace/query/trace.h"
#include "trace/store/database.h"

/* Invariants: `runs` are ordered by id; `texts` holds every string of an answer, equal ones once, so that two texts of
 * answers are equal exactly if their pointers are. */
struct mt_trace {
    struct mt_database *database;
    struct mt_interner *texts;
    struct mt_run *runs;
    size_t run_count;
};

/* Fills trace->runs. */
mt_status mt_query_load_runs(struct mt_trace *trace);

/* MT_USAGE: the run has no step of that number, but so many. */
mt_status mt_query_fail_no_step(const struct mt_run *run, int64_t step);

/* `text`, kept until the trace is closed; NULL becomes "". */
const char *mt_query_keep(struct mt_trace *trace, const char *text);

/* The text of a column, kept. */
const char *mt_query_text(struct mt_trace *trace, const struct mt_statement *statement, int column);

/* Prepares a statement and binds ?1 to the run's number. */
mt_status mt_query_prepare(struct mt_trace *trace, const struct mt_run *run, const char *sql,
                           struct mt_statement **out);

/* What a label says of a block: its columns, the join that finds it by the column that holds its id, and the reading of
 * those columns, the first of which is number `column`. */
#define MT_LABEL_COLUMNS "label.category, label.op, label.phase, label.role, label.dtype, label.shape, span.path"
#define MT_LABEL_JOIN(id)                                                                                              \
    " LEFT JOIN label ON label.run = ?1 AND label.id = " id                                                            \
    " LEFT JOIN span ON span.run = label.run AND span.id = label.span "
/* The same of an event's block, whose own span goes before its label's. */
#define MT_EVENT_LABEL_JOIN                                                                                            \
    " LEFT JOIN label ON label.run = ?1 AND label.id = event.label"                                                    \
    " LEFT JOIN span ON span.run = ?1 AND span.id = coalesce(event.span, label.span) "
void mt_query_label(struct mt_trace *trace, const struct mt_statement *statement, int column, struct mt_top_row *out);

/* "model.layers.7.ffn" as "model.layers.*.ffn", kept: the first part that is a number is the layer's. `span` is a kept
 * text, and returned as it is where it names no layer. */
const char *mt_query_place(struct mt_trace *trace, const char *span);

/* What numbers the rows of a run may name: labels and segments below these. */
struct mt_number_limits {
    uint32_t labels, segments;
};
mt_status mt_query_number_limits(struct mt_trace *trace, const struct mt_run *run, struct mt_number_limits *out);

/* A label's number as a column holds it: NULL, no label, is 0. MT_BAD_TRACE if no row of the run has it. */
mt_status mt_query_label_number(const struct mt_statement *row, int column, const struct mt_number_limits *limits,
                                uint32_t *out);

/* A column that holds a size, a place or a time: MT_BAD_TRACE, with the column's name, where it is negative. */
mt_status mt_query_natural(const struct mt_statement *row, int column, uint64_t *out);

/* The same of an event's row that is visited; its column 0 holds the event's id. */
mt_status mt_query_row_natural(const struct mt_row *row, int column, uint64_t *out);

/* What an event's id is from the first of its run on. A row may name any id, so it may be any number. */
static inline int64_t mt_query_position(int64_t id, int64_t first_event)
{
    return (int64_t)((uint64_t)id - (uint64_t)first_event);
}

/* The step that an event belongs to: the last that had begun, since what lies between two counts with the earlier one. -1:
 * none had. */
mt_status mt_query_step_of(struct mt_trace *trace, const struct mt_run *run, int64_t event, int64_t *out_step);

/* The highest bytes of the measure and the event that reached them; 0: nothing was ever allocated. */
mt_status mt_query_peak_event(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, uint64_t *out_bytes,
                              int64_t *out_event);

/* The ids of the alloc events whose blocks are live after `event`, ascending: free(). From the checkpoint before it and
 * the events since. */
mt_status mt_query_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, int64_t **out_ids,
                        size_t *out_count);

#endif
