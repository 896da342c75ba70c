/* Rows of tables event and block_use on their way into the trace.
 *
 * They are inserted by INSERT … SELECT from a virtual table over an array. SQLite then fetches each column with one call;
 * a prepared insert takes a bind, a step and a reset. Measured for table event: 2.4 million rows a second, against 1.3
 * with prepared inserts of one row and 2.1 with 50 rows a statement. */
#ifndef MT_TRACE_BATCH_H
#define MT_TRACE_BATCH_H

#include "base/event.h"
#include "trace/store/connection.h"

/* A table that takes batches. */
struct mt_batch_table;
extern const struct mt_batch_table mt_event_batch; /* of struct mt_event_row_in */
extern const struct mt_batch_table mt_use_batch;   /* of struct mt_use_row_in */

/* A row of table event. Its id continues the table's. */
struct mt_event_row_in {
    const struct mt_event *event; /* borrowed until the batch is stored */
    int64_t allocation;           /* 0: NULL */
    mt_span_id span;              /* 0: NULL */
};

/* A row of table block_use: a record MT_RECORD_USE, and the ids of its block and of event 0 of the run. */
struct mt_use_row_in {
    int64_t allocation, first_event;
    const struct mt_event *record; /* borrowed until the batch is stored */
};

struct mt_batch;

/* Makes the batch known to the connection. Borrows both. The caller destroys *out, also after a failure. */
mt_status mt_batch_create(struct mt_database *database, const struct mt_batch_table *table, struct mt_batch **out);

/* Returns room for one more row. There must be some: the caller stores a batch that its row has filled. */
void *mt_batch_add(struct mt_batch *batch);
bool mt_batch_is_full(const struct mt_batch *batch);

/* Stores the rows and empties the batch. */
mt_status mt_batch_store(struct mt_batch *batch);

/* Must come before the connection is closed. `batch` may be NULL. */
void mt_batch_destroy(struct mt_batch *batch);

#endif
