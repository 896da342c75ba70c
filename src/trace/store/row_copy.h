/* Copying rows of a table from one database to another.
 *
 * Fails as the functions of connection.h do. */
#pragma once

#include "base/text.h"
#include "trace/store/connection.h"

/* Prepares the insertion of rows with all columns of a table. Appends the columns' names to *columns, separated by
 * commas. A row whose key exists already is skipped. The caller finalizes *out. */
mt_status mt_row_copy_prepare(struct mt_database *to, const char *table, struct mt_text *columns,
                              struct mt_statement **out);

/* Inserts the current row of a query, which has the same columns in the same order. */
mt_status mt_row_copy(const struct mt_statement *row, struct mt_statement *insert);
