/* What there is in an export of Nsight Systems: tables and columns are there only if something was recorded, and what the
 * file says of itself may be meant to harm.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_NSYS_TABLES_H
#define MT_TRACE_IMPORT_NSYS_TABLES_H

#include "trace/store/database.h"

/* Whether there is a table of that name, with that column ("": any): views may hold anything, and so are none. */
mt_status mt_nsys_has_column(struct mt_database *database, const char *table, const char *column, bool *out);

/* MT_BAD_TRACE for a table whose rows take more to read than their share of the file: one with columns that are computed,
 * or with pages that are there twice. Takes time in proportion to the table; one that is not there is sound. */
mt_status mt_nsys_check_table(struct mt_database *database, const char *table);

#endif
