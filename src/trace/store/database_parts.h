/* What a connection and its statements share; for database.c and statement.c only. */
#ifndef MT_TRACE_DATABASE_PARTS_H
#define MT_TRACE_DATABASE_PARTS_H

#include "trace/store/database.h"

#include <sqlite3.h>

struct mt_database {
    sqlite3 *handle;
    char *path;
};

/* What SQLite's code means, its text recorded; the first takes any code, the second one that is a failure. The message
 * is that of the last call on the connection. */
mt_status mt_database_check(const struct mt_database *database, int code);
mt_status mt_database_fail(const struct mt_database *database, int code);

#endif
