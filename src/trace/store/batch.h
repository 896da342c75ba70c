/* Rows of tables event, block_use and stack before they are stored in the trace.
 *
 * They are inserted by INSERT … SELECT from a virtual table over an array. SQLite then fetches each column with one
 * call; a prepared insert needs a bind, a step and a reset. Measured for table event: 2.4 million rows a second,
 * against 1.3 with prepared inserts of one row and 2.1 with 50 rows per statement. */
#pragma once

#include "base/event.h"
#include "trace/store/connection.h"

/* A table that accepts batches. */
struct mt_batch_table;
extern const struct mt_batch_table mt_event_batch; /* of struct mt_event_row_in */
extern const struct mt_batch_table mt_use_batch;   /* of struct mt_use_row_in */
extern const struct mt_batch_table mt_stack_batch; /* of struct mt_stack_row_in */

/* The value of a column that is NULL. */
#define MT_NULL_COLUMN INT64_MIN

/* A row of table event: its columns after id. The id continues the table's. */
enum { MT_EVENT_COLUMNS = 11 };
struct mt_event_row_in {
    int64_t columns[MT_EVENT_COLUMNS];
};

/* Fills in the row of an event; `allocation` and `span` 0 are NULL. */
void mt_event_row_set(struct mt_event_row_in *row, const struct mt_event *event, int64_t allocation, mt_span_id span);

/* Reads the columns of table event in their order, from `first_column` of the statement's current row on. */
void mt_event_row_read(struct mt_event_row_in *row, const struct mt_statement *statement, int first_column);

/* Fills in an event from its row, with its label as a number without a category. Sequence, the place of a free or a
 * relabel, and a segment's address are not in columns: they are 0. Returns false if a number does not fit its field. */
bool mt_event_row_get(const struct mt_event_row_in *row, struct mt_event *out, int64_t *out_allocation);

/* Returns the checksum of rows of event: `checksum`, the checksum of the rows before, continued over one more row. The
 * checksum of zero rows is the id of the first. */
uint64_t mt_event_row_checksum(uint64_t checksum, const struct mt_event_row_in *row);

/* A row of table block_use: its columns in their order. */
struct mt_use_row_in {
    int64_t columns[9];
};

/* A row of table stack: its columns in their order. */
struct mt_stack_row_in {
    int64_t columns[4];
};

/* Fills in the row of a use. The id of the run's first event is `first_event`. */
void mt_use_row_set(struct mt_use_row_in *row, int64_t first_event, const struct mt_use *use);

struct mt_batch;

/* Registers the batch with the connection. Borrows both arguments. The caller destroys *out, also after a failure. */
mt_status mt_batch_create(struct mt_database *database, const struct mt_batch_table *table, struct mt_batch **out);

/* Returns room for one more row. There must be room: the caller stores a batch once it is full. */
void *mt_batch_add(struct mt_batch *batch);
bool mt_batch_is_full(const struct mt_batch *batch);

/* Stores the rows and empties the batch. */
mt_status mt_batch_store(struct mt_batch *batch);

/* Call it before the connection is closed. `batch` may be NULL. */
void mt_batch_destroy(struct mt_batch *batch);
