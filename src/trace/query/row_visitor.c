#include "trace/query/row_visitor.h"

#include <sqlite3.h>

enum { ANY_NUMBER_OF_ARGUMENTS = -1 };

struct mt_row {
    sqlite3_value **values;
};

int64_t mt_row_integer(const struct mt_row *row, int column)
{
    return sqlite3_value_int64(row->values[column]);
}

static void visit(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    struct mt_row_visitor *visitor = sqlite3_user_data(context);
    if (visitor->status == MT_OK)
        visitor->status = visitor->visit(visitor->context, &(struct mt_row){values});
}

/* The result of the aggregate: NULL, which is what it is where nothing is said. */
static void finish(sqlite3_context *context)
{
    (void)context;
}

/* Nothing but our own statements may call it, so no view or trigger of a foreign file. */
static int define(struct mt_database *database, const char *name, struct mt_row_visitor *visitor)
{
    return sqlite3_create_function(mt_database_handle(database), name, ANY_NUMBER_OF_ARGUMENTS,
                                   SQLITE_UTF8 | SQLITE_DIRECTONLY, visitor, NULL, visitor != NULL ? visit : NULL,
                                   visitor != NULL ? finish : NULL);
}

mt_status mt_row_visitor_add(struct mt_database *database, struct mt_row_visitor *visitor)
{
    if (define(database, visitor->name, visitor) == SQLITE_OK)
        return MT_OK;
    return mt_fail(MT_FAILED, "%s: %s", mt_database_path(database), sqlite3_errmsg(mt_database_handle(database)));
}

void mt_row_visitor_remove(struct mt_database *database, const struct mt_row_visitor *visitor)
{
    define(database, visitor->name, NULL);
}
