/* Queries in SQL. The text comes from the user, and the file perhaps from a stranger. So SQLite's authorizer allows
 * reading and nothing else: no writing, no attaching, no setting of the connection. */
#include "base/text.h"
#include "trace/query/query.h"

#include <assert.h>
#include <limits.h>
#include <sqlite3.h>

/* True for the pragmas that only read. */
static bool is_reading_pragma(const char *name)
{
    static const char *const reading[] = {"table_info", "table_xinfo", "table_list",      "index_list", "index_info",
                                          "page_count", "page_size",   "integrity_check", "quick_check"};
    for (size_t i = 0; i < sizeof reading / sizeof reading[0]; i++)
        if (sqlite3_stricmp(name, reading[i]) == 0)
            return true;
    return false;
}

/* Allows or refuses an action of a statement. `context` is a bool that becomes true if one is refused. */
static int authorize(void *context, int action, const char *first, const char *second, const char *database,
                     const char *trigger)
{
    (void)database;
    (void)trigger;
    bool allowed = action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE;
    /* SQLite itself does this when a statement first names a table-valued function (json_each, pragma_table_info). A
     * statement of the user's that does it is not read-only, and refused for that. */
    if (action == SQLITE_UPDATE)
        allowed = sqlite3_stricmp(first, "sqlite_master") == 0;
    if (action == SQLITE_FUNCTION)
        allowed = sqlite3_stricmp(second, "load_extension") != 0;
    if (action == SQLITE_PRAGMA)
        allowed = is_reading_pragma(first) || (second == NULL && (sqlite3_stricmp(first, "user_version") == 0 ||
                                                                  sqlite3_stricmp(first, "application_id") == 0));
    if (!allowed)
        *(bool *)context = true;
    return allowed ? SQLITE_OK : SQLITE_DENY;
}

/* Returns a blob's digits, x'0a1b', in `out`. */
static const char *blob_text(const struct mt_statement *row, int column, struct mt_text *out)
{
    size_t bytes;
    const unsigned char *blob = mt_statement_blob(row, column, &bytes);
    out->length = 0;
    mt_text_add(out, "x'");
    for (size_t i = 0; i < bytes; i++)
        mt_text_add(out, "%02x", blob[i]);
    mt_text_add(out, "'");
    return out->data;
}

static struct mt_sql_value read_value(const struct mt_statement *row, int column, struct mt_text *digits)
{
    switch (mt_statement_column_type(row, column)) {
    case SQLITE_INTEGER:
        return (struct mt_sql_value){.type = MT_SQL_INTEGER, .integer = mt_statement_integer(row, column)};
    case SQLITE_FLOAT:
        return (struct mt_sql_value){.type = MT_SQL_REAL, .real = mt_statement_real(row, column)};
    case SQLITE_TEXT:
        return (struct mt_sql_value){.type = MT_SQL_TEXT, .text = mt_statement_text(row, column)};
    case SQLITE_BLOB:
        return (struct mt_sql_value){.type = MT_SQL_BLOB, .text = blob_text(row, column, digits)};
    }
    return (struct mt_sql_value){.type = MT_SQL_NULL};
}

/* The limit of columns that is set for SQLite. It is also its default. */
enum { MOST_COLUMNS = 2000 };

static mt_status begin(struct mt_statement *statement, size_t columns, const struct mt_sql_visitor *visitor)
{
    const char *names[MOST_COLUMNS];
    for (size_t i = 0; i < columns; i++)
        names[i] = mt_statement_column_name(statement, (int)i);
    return visitor->begin(visitor->context, columns, names);
}

static mt_status visit_rows(struct mt_statement *statement, const struct mt_sql_visitor *visitor)
{
    struct mt_sql_value values[MOST_COLUMNS];
    struct mt_text digits[MOST_COLUMNS] = {0};
    size_t columns = (size_t)mt_statement_columns(statement);
    assert(columns <= MOST_COLUMNS);
    mt_status status = begin(statement, columns, visitor);
    while (mt_statement_next(statement, &status)) {
        for (size_t i = 0; i < columns; i++)
            values[i] = read_value(statement, (int)i, &digits[i]);
        status = visitor->visit(visitor->context, columns, values);
    }
    for (size_t i = 0; i < columns; i++)
        mt_text_release(&digits[i]);
    return status;
}

static mt_status fail_refused(void)
{
    return mt_fail(MT_USAGE,
                   "only statements that read are allowed, such as SELECT or EXPLAIN: the trace is not changed");
}

mt_status mt_trace_sql(struct mt_trace *trace, const struct mt_run *run, const char *sql,
                       const struct mt_sql_visitor *visitor)
{
    bool refused = false;
    struct mt_statement *statement = NULL;
    sqlite3 *handle = mt_database_handle(trace->database);
    const int most_bytes = sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, INT_MAX); /* what a user asks for has no bounds */
    sqlite3_limit(handle, SQLITE_LIMIT_COLUMN, MOST_COLUMNS);
    sqlite3_set_authorizer(handle, authorize, &refused);
    mt_status status = mt_database_prepare_question(trace->database, sql, &statement);
    if (status == MT_OK && !mt_statement_is_read_only(statement))
        refused = true;
    if (refused)
        status = fail_refused();
    int parameter = status == MT_OK ? mt_statement_parameter(statement, ":run") : 0;
    if (parameter > 0 && run != NULL)
        mt_statement_bind_integer(statement, parameter, run->id);
    MT_THEN(status, visit_rows(statement, visitor));
    if (refused)
        status = fail_refused();
    bool is_unknown = status == MT_USAGE && statement == NULL && !refused;
    mt_statement_finalize(statement);
    sqlite3_set_authorizer(handle, NULL, NULL);
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, most_bytes);
    return is_unknown ? mt_query_explain_sql(trace, sql) : status;
}
