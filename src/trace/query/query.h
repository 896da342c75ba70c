/* The parts that queries share; for this folder only.
 *
 * Rows are read in two ways. A statement is stepped row by row, as connection.h shows. For millions of rows a visitor
 * is twice as fast: an aggregate function of SQL that is called with a row's columns and has no result,
 *
 *   SELECT begins(id, block_bytes) FILTER (WHERE kind = 2), ends(id, allocation) FILTER (WHERE kind = 3) FROM event
 *
 * so that a row costs no call of the library, and no more columns are looked up than its filter needs. Rows come in the
 * order in which the table is read: that of its key, if the query leaves no other way (NOT INDEXED). */
#pragma once

#include "base/event.h"
#include "trace/query/lookup.h"
#include "trace/store/connection.h"

struct mt_interner;

/* Invariants: `runs` are ordered by id; `texts` holds every string of an answer, equal ones once. So two texts of
 * answers are equal exactly if their pointers are. */
struct mt_trace {
    struct mt_database *database;
    struct mt_interner *texts;
    struct mt_run *runs;
    size_t run_count;
};

/* Fails with MT_USAGE: the run has no step of that number. */
mt_status mt_query_fail_no_step(const struct mt_run *run, int64_t step);

/* Returns the text of a column, kept. */
const char *mt_query_text(struct mt_trace *trace, const struct mt_statement *statement, int column);

/* Returns the id that follows the last event of the run. */
static inline int64_t mt_query_end(const struct mt_run *run)
{
    return run->first_event + run->event_count;
}

/* Prepares a statement and binds ?1 to the run's number. */
mt_status mt_query_prepare(struct mt_trace *trace, const struct mt_run *run, const char *sql,
                           struct mt_statement **out);

/* Binds ?2, ?3, … to integers. */
#define MT_QUERY_BIND(statement, ...)                                                                                  \
    mt_statement_bind_integers(statement, 2, (const int64_t[]){__VA_ARGS__},                                           \
                               (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* Gives the rows to the caller and returns `status`. After a failure frees them, and gives NULL and 0. `out_rows` is
 * the address of the caller's pointer. */
mt_status mt_query_hand_over(mt_status status, void *rows, size_t count, void *out_rows, size_t *out_count);

/* The columns of a row that is visited. */
struct mt_row;

/* Returns a column. NULL is 0; other values are converted as SQLite converts them. */
int64_t mt_row_integer(const struct mt_row *row, int column);

/* Invariant: `status` is that of the first visit that failed; there are no visits after it. */
struct mt_row_visitor {
    const char *name; /* of the function of SQL */
    mt_status (*visit)(void *context, const struct mt_row *row);
    void *context;
    mt_status status; /* MT_OK at first */
};

/* Add and remove a visitor. In between, statements of this connection may name it; finalize them before. */
mt_status mt_row_visitor_add(struct mt_database *database, struct mt_row_visitor *visitor);
void mt_row_visitor_remove(struct mt_database *database, const struct mt_row_visitor *visitor);

/* The columns of a label, and the join that finds it by the column that holds its id. */
#define MT_LABEL_COLUMNS "label.category, label.op, label.phase, label.role, label.dtype, label.shape, span.path"
#define MT_LABEL_JOIN(id)                                                                                              \
    " LEFT JOIN label ON label.run = ?1 AND label.id = " id                                                            \
    " LEFT JOIN span ON span.run = label.run AND span.id = label.span "
/* The same join for a row of event, whose own span takes precedence over its label's. */
#define MT_EVENT_LABEL_JOIN                                                                                            \
    " LEFT JOIN label ON label.run = ?1 AND label.id = event.label"                                                    \
    " LEFT JOIN span ON span.run = ?1 AND span.id = coalesce(event.span, label.span) "

/* The allocs, as `alloc`, each with the event that gave its block the label that it has after the event `moment`, a
 * parameter: the alloc itself or a relabel. The index of relabels is by `kind = 10`, and `likely` has SQLite prefer it
 * to a user's own by kinds. The view of them may be anything in a file of others. */
#define MT_ALLOC_AND_LABELLING_EVENT(moment)                                                                           \
    " event AS alloc NOT INDEXED JOIN event NOT INDEXED ON event.id = ifnull((SELECT max(relabel.id)"                  \
    " FROM event AS relabel WHERE likely(relabel.kind = 10) AND relabel.allocation = alloc.id AND relabel.id "         \
    "<= " moment "), alloc.id) "

/* Reads MT_LABEL_COLUMNS, the first of which is number `column`. */
void mt_query_label(struct mt_trace *trace, const struct mt_statement *statement, int column, struct mt_top_row *out);

/* Returns "model.layers.7.ffn" as "model.layers.*.ffn", kept: the first part that is a number is the layer's. `span` is
 * a kept text, and returned itself if it names no layer. */
const char *mt_query_place(struct mt_trace *trace, const char *span);

/* The limits of numbers in rows of a run: labels and segments are below these. */
struct mt_number_limits {
    uint32_t labels, segments;
};
mt_status mt_query_number_limits(struct mt_trace *trace, const struct mt_run *run, struct mt_number_limits *out);

/* Reads a column that holds a label's number; NULL, no label, is 0. Fails with MT_BAD_TRACE if no row of the run has
 * it. */
mt_status mt_query_label_number(const struct mt_statement *row, int column, const struct mt_number_limits *limits,
                                uint32_t *out);

/* Reads a column that holds a size, a place or a time. Fails with MT_BAD_TRACE and the column's name if it is
 * negative. */
mt_status mt_query_natural(const struct mt_statement *row, int column, uint64_t *out);

/* Reads such a column of an event's row that is visited; its column 0 holds the event's id. */
mt_status mt_query_row_natural(const struct mt_row *row, int column, uint64_t *out);

/* Returns the position of an event in its run. A row may name any id, so the result may be any number. */
static inline int64_t mt_query_position(int64_t id, int64_t first_event)
{
    return (int64_t)((uint64_t)id - (uint64_t)first_event);
}

/* Finds the highest bytes of the measure and the event that reached them; 0: nothing was ever allocated. */
mt_status mt_query_peak_event(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, uint64_t *out_bytes,
                              int64_t *out_event);

/* Replaces the shares of that peak by the stored ones by role. None are stored of a run of an older format. */
mt_status mt_query_peak_roles(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                              struct mt_peak_row *peak);

/* A function that gets rows of blocks one by one, and returns false to have no more. */
struct mt_top_visitor {
    void *context;
    bool (*visit)(void *context, const struct mt_top_row *row);
};

/* Visits the rows of a choice by falling size, not merged: allocations of one size and label, or live blocks one by
 * one. */
mt_status mt_query_top_visit(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                             const struct mt_top_visitor *visitor);

/* Estimates what a driver would count at the peak of reserved bytes. Sets is_estimate if the run has estimates. */
mt_status mt_query_estimate_used(struct mt_trace *trace, const struct mt_run *run, struct mt_used_row *out);

/* Checks the invariants of struct mt_peak_row, which a damaged trace may break, and sets cached_bytes. */
mt_status mt_query_check_peak(struct mt_trace *trace, const struct mt_run *run, mt_measure measure,
                              struct mt_peak_row *peak);

/* Finds the ids of the alloc events whose blocks are live after `event`, ascending, from the checkpoint before it and
 * the events since. The caller frees *out_ids. */
mt_status mt_query_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, int64_t **out_ids,
                        size_t *out_count);

/* Fails with MT_USAGE and the tables, or columns, that there are, if SQLite's last failure is that it does not know one
 * of `sql`; otherwise with SQLite's words. */
mt_status mt_query_explain_sql(struct mt_trace *trace, const char *sql);
