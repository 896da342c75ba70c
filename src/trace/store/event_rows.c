#include "trace/store/event_rows.h"

#include <sqlite3.h>

/* The state of passing rows from SQLite to the visitor. */
struct passing {
    const struct mt_event_row_visitor *visitor;
    int64_t last; /* the id of the row before */
    struct mt_error error;
};

/* The arguments of the function: the state, id, and the columns after it. */
enum { PASSING, ID, COLUMNS, ARGUMENTS = COLUMNS + MT_EVENT_COLUMNS };

static void read_columns(sqlite3_value **values, struct mt_event_row_in *out)
{
    for (int i = 0; i < MT_EVENT_COLUMNS; i++) {
        const int64_t value = sqlite3_value_int64(values[i]);
        const bool is_null = value == 0 && sqlite3_value_type(values[i]) == SQLITE_NULL;
        out->columns[i] = is_null ? MT_NULL_COLUMN : value;
    }
}

/* SQLite reads a table by id. Only in a damaged tree can the next id be lower or equal. */
static mt_status pass_row(struct passing *passing, int64_t id, sqlite3_value **columns)
{
    struct mt_event_row_in row;
    if (id <= passing->last)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %lld follows event %lld", (long long)id,
                       (long long)passing->last);
    passing->last = id;
    read_columns(columns, &row);
    return passing->visitor->row(passing->visitor->context, id, &row);
}

/* Does nothing in a user's statement, which has no pointer. */
static void take_row(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct passing *passing = sqlite3_value_pointer(values[PASSING], MT_POINTER_TYPE);
    (void)count;
    if (passing == NULL)
        return;
    const mt_status status = pass_row(passing, sqlite3_value_int64(values[ID]), values + COLUMNS);
    if (status == MT_OK)
        return;
    passing->error = mt_error_save(status);
    sqlite3_result_error(context, "", 0);
}

static void end_rows(sqlite3_context *context)
{
    sqlite3_result_null(context);
}

/* Registers the function with the connection. SQLite refuses to replace an existing one while a statement is active. */
static mt_status provide_function(struct mt_database *database)
{
    sqlite3 *handle = mt_database_handle(database);
    const int code = sqlite3_create_function_v2(handle, "mt_take_event", ARGUMENTS, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                                NULL, NULL, take_row, end_rows, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY ? MT_OK : mt_fail(MT_FAILED, "%s", sqlite3_errmsg(handle));
}

mt_status mt_event_rows_each(struct mt_database *database, struct mt_event_range range,
                             const struct mt_event_row_visitor *visitor)
{
    struct passing passing = {.visitor = visitor, .last = INT64_MIN};
    mt_status status = provide_function(database);
    MT_EACH_ROW (
        row, status, database,
        "SELECT mt_take_event(?4, id, time_ns, kind, stream, label, span, requested_bytes, block_bytes, segment,"
        " offset, allocation, stack) FROM event NOT INDEXED WHERE id >= ?1 AND id < ?1 + ?2 AND id > ?3",
        MT_BIND_INTEGER(range.first), MT_BIND_INTEGER(range.count), MT_BIND_INTEGER(range.after),
        MT_BIND_POINTER(&passing))
        ;
    return passing.error.status != MT_OK ? mt_error_restore(&passing.error, MT_OK) : status;
}
