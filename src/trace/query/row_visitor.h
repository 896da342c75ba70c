/* Rows that are handed to a function while SQLite reads them, in place of being fetched one by one.
 *
 * A visitor is an aggregate function of SQL that is called with a row's columns and has no result:
 *
 *   SELECT begins(id, block_bytes) FILTER (WHERE kind = 2), ends(id, allocation) FILTER (WHERE kind = 3) FROM event
 *
 * For millions of rows that takes half as long, since a row costs no call of the library and no more columns are looked
 * up than its filter needs. Rows come in the order in which the table is read: that of its key, if the query leaves no
 * other way (NOT INDEXED).
 *
 * Threads: as the connection. */
#ifndef MT_TRACE_ROW_VISITOR_H
#define MT_TRACE_ROW_VISITOR_H

#include "trace/store/database.h"

/* The arguments of one call. */
struct mt_row;

/* NULL is 0; other values are converted as SQLite converts them. */
int64_t mt_row_integer(const struct mt_row *row, int column);

/* Invariant: `status` is that of the first visit that failed; there were none after it. */
struct mt_row_visitor {
    const char *name; /* what SQL calls it */
    mt_status (*visit)(void *context, const struct mt_row *row);
    void *context;
    mt_status status; /* MT_OK to begin with */
};

/* From one to the other, statements of this connection may name the visitor. Finalize them before it goes. */
mt_status mt_row_visitor_add(struct mt_database *database, struct mt_row_visitor *visitor);
void mt_row_visitor_remove(struct mt_database *database, const struct mt_row_visitor *visitor);

#endif
