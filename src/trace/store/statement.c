/* The statements of database.h: preparing, binding, stepping, and the columns of a row. */
#include "base/memory.h"
#include "trace/store/database_parts.h"

#include <stdlib.h>

struct mt_statement {
    sqlite3_stmt *handle;
    struct mt_database *database;
    mt_status of_error; /* what a senseless one means: MT_USAGE if a user wrote the statement */
    int bind_result;    /* the first failed bind's, until the next step reports it */
};

/* Whether nothing but space, comments and semicolons is left. */
static bool is_blank(struct mt_database *database, const char *sql)
{
    sqlite3_stmt *handle = NULL;
    while (*sql != '\0' && handle == NULL)
        if (sqlite3_prepare_v2(database->handle, sql, -1, &handle, &sql) != SQLITE_OK)
            return false;
    sqlite3_finalize(handle);
    return handle == NULL;
}

/* Whether a code says that a statement makes no sense, for which only who wrote it can be blamed. */
static bool is_senseless(int code)
{
    return (code & 0xFF) == SQLITE_ERROR || (code & 0xFF) == SQLITE_TOOBIG || (code & 0xFF) == SQLITE_MISMATCH;
}

static mt_status prepare(struct mt_database *database, const char *sql, mt_status of_error, struct mt_statement **out)
{
    sqlite3_stmt *handle;
    const char *rest;
    *out = NULL;
    int code = sqlite3_prepare_v3(database->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &handle, &rest);
    if (is_senseless(code) && of_error == MT_USAGE)
        return mt_fail(MT_USAGE, "%s", sqlite3_errmsg(database->handle));
    if (code != SQLITE_OK)
        return mt_database_fail(database, code);
    if (handle == NULL)
        return mt_fail(MT_USAGE, "there is no SQL statement in \"%s\"", sql);
    if (!is_blank(database, rest)) {
        sqlite3_finalize(handle);
        return mt_fail(MT_USAGE, "more than one SQL statement: one at a time");
    }
    *out = mt_host_alloc(sizeof **out);
    **out =
        (struct mt_statement){.handle = handle, .database = database, .of_error = of_error, .bind_result = SQLITE_OK};
    return MT_OK;
}

mt_status mt_database_prepare(struct mt_database *database, const char *sql, struct mt_statement **out)
{
    return prepare(database, sql, MT_BAD_TRACE, out);
}

mt_status mt_database_prepare_question(struct mt_database *database, const char *sql, struct mt_statement **out)
{
    return prepare(database, sql, MT_USAGE, out);
}

static void keep_first(struct mt_statement *statement, int code)
{
    if (statement->bind_result == SQLITE_OK)
        statement->bind_result = code;
}

void mt_statement_bind_integer(struct mt_statement *statement, int index, int64_t value)
{
    keep_first(statement, sqlite3_bind_int64(statement->handle, index, value));
}

void mt_statement_bind_real(struct mt_statement *statement, int index, double value)
{
    keep_first(statement, sqlite3_bind_double(statement->handle, index, value));
}

void mt_statement_bind_text(struct mt_statement *statement, int index, const char *value)
{
    keep_first(statement, sqlite3_bind_text(statement->handle, index, value, -1, SQLITE_TRANSIENT));
}

void mt_statement_bind_blob(struct mt_statement *statement, int index, const void *data, size_t bytes)
{
    keep_first(statement, bytes == 0 ? sqlite3_bind_zeroblob(statement->handle, index, 0)
                                     : sqlite3_bind_blob64(statement->handle, index, data, bytes, SQLITE_TRANSIENT));
}

void mt_statement_bind_null(struct mt_statement *statement, int index)
{
    keep_first(statement, sqlite3_bind_null(statement->handle, index));
}

mt_status mt_statement_step(struct mt_statement *statement, bool *out_row)
{
    *out_row = false;
    int code = statement->bind_result;
    statement->bind_result = SQLITE_OK;
    if (code == SQLITE_OK)
        code = sqlite3_step(statement->handle);
    if (code == SQLITE_ROW) {
        *out_row = true;
        return MT_OK;
    }
    /* The message belongs to the last call on the connection, so it is taken before the reset. */
    mt_status status = is_senseless(code) && statement->of_error == MT_USAGE
                           ? mt_fail(MT_USAGE, "%s", sqlite3_errmsg(statement->database->handle))
                           : mt_database_check(statement->database, code);
    sqlite3_reset(statement->handle);
    return status;
}

mt_status mt_statement_run(struct mt_statement *statement)
{
    bool row;
    mt_status status = mt_statement_step(statement, &row);
    if (status == MT_OK && row)
        sqlite3_reset(statement->handle);
    return status;
}

void mt_statement_reset(struct mt_statement *statement)
{
    sqlite3_reset(statement->handle);
}

void mt_statement_finalize(struct mt_statement *statement)
{
    if (statement == NULL)
        return;
    sqlite3_finalize(statement->handle);
    free(statement);
}

int64_t mt_statement_integer(const struct mt_statement *statement, int column)
{
    return sqlite3_column_int64(statement->handle, column);
}

double mt_statement_real(const struct mt_statement *statement, int column)
{
    return sqlite3_column_double(statement->handle, column);
}

const char *mt_statement_text(const struct mt_statement *statement, int column)
{
    return (const char *)sqlite3_column_text(statement->handle, column);
}

const void *mt_statement_blob(const struct mt_statement *statement, int column, size_t *out_bytes)
{
    const void *data = sqlite3_column_blob(statement->handle, column);
    *out_bytes = (size_t)sqlite3_column_bytes(statement->handle, column);
    return data;
}

bool mt_statement_is_null(const struct mt_statement *statement, int column)
{
    return sqlite3_column_type(statement->handle, column) == SQLITE_NULL;
}

int mt_statement_columns(const struct mt_statement *statement)
{
    return sqlite3_column_count(statement->handle);
}

int mt_statement_parameter(const struct mt_statement *statement, const char *name)
{
    return sqlite3_bind_parameter_index(statement->handle, name);
}

const char *mt_statement_column_name(const struct mt_statement *statement, int column)
{
    return sqlite3_column_name(statement->handle, column);
}

mt_column_type mt_statement_column_type(const struct mt_statement *statement, int column)
{
    switch (sqlite3_column_type(statement->handle, column)) {
    case SQLITE_INTEGER:
        return MT_COLUMN_INTEGER;
    case SQLITE_FLOAT:
        return MT_COLUMN_REAL;
    case SQLITE_TEXT:
        return MT_COLUMN_TEXT;
    case SQLITE_BLOB:
        return MT_COLUMN_BLOB;
    }
    return MT_COLUMN_NULL;
}

bool mt_statement_is_read_only(const struct mt_statement *statement)
{
    return sqlite3_stmt_readonly(statement->handle) != 0;
}
