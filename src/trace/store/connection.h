/* SQLite for the code that reads and writes traces: a connection and its statements. Failures are an mt_status with
 * their text.
 *
 * Failures: MT_BAD_TRACE if the file is not an SQLite database or is damaged, or a statement needs more than a file of
 * its size justifies (bounds.h); for a statement that SQLite does not understand, MT_USAGE if a user wrote it and
 * MT_BAD_TRACE if it is ours, since every trace has the tables and columns of our statements; MT_FAILED for everything
 * else (disk full, locked, …).
 *
 * All queries are read in the same form. No step of it needs a check, because a failure passes through all of them:
 *
 *   mt_status status = MT_OK;
 *   MT_EACH_ROW (row, status, database, "SELECT … WHERE run = ?", MT_BIND_INTEGER(run))
 *       … mt_statement_integer(row, 0) …
 *   return status;
 *
 * Threads: a connection and its statements are used by one thread at a time. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_database;
struct mt_statement;
struct sqlite3;

typedef enum mt_access {
    MT_ACCESS_READ,
    MT_ACCESS_READ_UNCHANGING, /* no process writes the file: SQLite creates no files next to it */
    MT_ACCESS_WRITE,           /* creates the file if there is none */
    MT_ACCESS_PRIVATE,         /* a database in memory, only for this connection; `path` is its name in failures */
} mt_access;

/* Makes SQLite's allocations never fail (base/memory.h). Otherwise some of its functions return NULL instead of a
 * text. Only for the program, before its first connection: in other programs, SQLite is not ours. */
void mt_database_end_without_memory(void);

/* Connects to the database at `path`, which is copied, with SQLite's defensive settings. The file's own
 * schema is not trusted. The caller closes *out, also after a failure. */
mt_status mt_database_connect(const char *path, mt_access access, struct mt_database **out);

/* Frees the connection; its statements must have been finalized. `database` may be NULL. */
void mt_database_close(struct mt_database *database);

/* Closes like mt_database_close, for a writer: first folds the WAL into the file. Then the trace is one file, and a
 * reader without write permission can open it. If a reader prevents this, the WAL stays until the next writer
 * closes. */
mt_status mt_database_close_as_one_file(struct mt_database *database);

/* Checks the data that each of our statements may read, before it is prepared. If the check fails, so does the
 * preparation. */
struct mt_statement_guard {
    void *context;
    mt_status (*check)(void *context, struct mt_database *database,
                       const char *sql); /* `sql` NULL: check the whole file */
    void (*destroy)(void *context);
};

/* Sets the connection's only guard, until it is closed. */
void mt_database_set_guard(struct mt_database *database, struct mt_statement_guard guard);

/* Runs the guard, if there is one. */
mt_status mt_database_guard(struct mt_database *database, const char *sql);

/* Returns the path that was given to connect; borrowed. */
const char *mt_database_path(const struct mt_database *database);

/* Returns SQLite's connection, for calls that this header does not offer. */
struct sqlite3 *mt_database_handle(struct mt_database *database);

/* Runs statements without parameters or results, separated by semicolons. */
mt_status mt_database_execute(struct mt_database *database, const char *sql);

/* Begin and end a transaction; it can't be nested. Rollback does nothing if there is none. */
mt_status mt_database_begin(struct mt_database *database);
mt_status mt_database_commit(struct mt_database *database);
void mt_database_rollback(struct mt_database *database);

/* Begin and end reading one state of the file. SQLite then locks the file once and not for every statement, which would
 * take longer than reading a row. May be nested, and inside a transaction. */
mt_status mt_database_begin_reading(struct mt_database *database);
void mt_database_end_reading(struct mt_database *database);

/* Runs a statement without parameters; *out is the first column of its first row, 0 if that is NULL or absent. */
mt_status mt_database_integer(struct mt_database *database, const char *sql, int64_t *out);

/* Prepares one statement. Fails with MT_USAGE if `sql` contains a second one. The caller finalizes *out before the
 * connection is closed; it is NULL after a failure. */
mt_status mt_database_prepare(struct mt_database *database, const char *sql, struct mt_statement **out);

/* Prepares a user's statement. Fails with MT_USAGE if SQLite does not understand it. The statement has no bounds. */
mt_status mt_database_prepare_question(struct mt_database *database, const char *sql, struct mt_statement **out);

/* Prepares "INSERT OR REPLACE INTO table (columns) VALUES (?, …)" with a parameter for each of the comma-separated
 * `columns`, in their order. */
mt_status mt_database_prepare_insert(struct mt_database *database, const char *table, const char *columns,
                                     struct mt_statement **out);

/* A value for a parameter; use the macros below. A text that is NULL binds NULL. A pointer is for one of our
 * functions, which reads it with MT_POINTER_TYPE; SQL sees NULL. */
struct mt_bound {
    enum { MT_BOUND_NULL, MT_BOUND_INTEGER, MT_BOUND_REAL, MT_BOUND_TEXT, MT_BOUND_BLOB, MT_BOUND_POINTER } kind;
    int64_t integer;
    double real;
    const void *data; /* of a text or blob */
    size_t bytes;     /* of a blob */
    void *pointer;    /* borrowed until the statement is finalized */
};
#define MT_POINTER_TYPE "memtrace"
#define MT_BIND_NULL ((struct mt_bound){.kind = MT_BOUND_NULL})
#define MT_BIND_INTEGER(value) ((struct mt_bound){.kind = MT_BOUND_INTEGER, .integer = (int64_t)(value)})
#define MT_BIND_INTEGER_UNLESS(none, value) ((value) == (none) ? MT_BIND_NULL : MT_BIND_INTEGER(value))
#define MT_BIND_REAL(value) ((struct mt_bound){.kind = MT_BOUND_REAL, .real = (value)})
#define MT_BIND_TEXT(value) ((struct mt_bound){.kind = MT_BOUND_TEXT, .data = (value)})
#define MT_BIND_POINTER(value) ((struct mt_bound){.kind = MT_BOUND_POINTER, .pointer = (value)})
#define MT_BIND_BLOB(value, size) ((struct mt_bound){.kind = MT_BOUND_BLOB, .data = (value), .bytes = (size)})

/* Binds parameter `index`, from 1, of a statement that is reset. Text and blobs are copied. The next step reports the
 * first failure. Ignores a statement that is NULL because its preparation failed. */
void mt_statement_bind(struct mt_statement *statement, int index, struct mt_bound value);

static inline void mt_statement_bind_integer(struct mt_statement *statement, int index, int64_t value)
{
    mt_statement_bind(statement, index, MT_BIND_INTEGER(value));
}

static inline void mt_statement_bind_text(struct mt_statement *statement, int index, const char *value)
{
    mt_statement_bind(statement, index, MT_BIND_TEXT(value));
}

/* Binds the parameters from `index` on to `count` values. */
void mt_statement_bind_integers(struct mt_statement *statement, int index, const int64_t *values, int count);

/* Binds the parameters from `index` on to `count` values, and runs the statement as mt_statement_run. */
mt_status mt_statement_run_with(struct mt_statement *statement, int index, const struct mt_bound *values, int count);
#define MT_RUN_WITH(statement, index, ...) mt_statement_run_with((statement), (index), MT_BOUND_LIST(__VA_ARGS__))
#define MT_BOUND_LIST(...)                                                                                             \
    (const struct mt_bound[]){__VA_ARGS__},                                                                            \
        (int)(sizeof((const struct mt_bound[]){__VA_ARGS__}) / sizeof(struct mt_bound))

/* Returns the index of the parameter with a name (":run"), 0 if the statement has none. */
int mt_statement_parameter(const struct mt_statement *statement, const char *name);

/* Advances to the next row; *out_row is false if there is none. After the last row or a failure the statement is reset,
 * and can be bound and stepped again. */
mt_status mt_statement_step(struct mt_statement *statement, bool *out_row);

/* Advances if *status is MT_OK, and sets it. True if there is a row. */
bool mt_statement_next(struct mt_statement *statement, mt_status *status);

/* Steps a statement that returns no rows once, and resets it. */
mt_status mt_statement_run(struct mt_statement *statement);

/* Iterates over the rows of a query, unless `status` is a failure already. The arguments after `sql`, at least one, are
 * the values of its parameters. Sets `status`. The body may set it, too; its failure ends the iteration. The body must
 * not leave the loop by break or return. */
#define MT_EACH_ROW(row, status, database, sql, ...)                                                                   \
    for (struct mt_statement *row = mt_statement_begin((database), (sql), MT_BOUND_LIST(__VA_ARGS__), &(status));      \
         mt_statement_advance(row, &(status));)

/* Prepares and binds a statement, unless *status is a failure, and sets *status. NULL after a failure. */
struct mt_statement *mt_statement_begin(struct mt_database *database, const char *sql, const struct mt_bound *values,
                                        int count, mt_status *status);

/* As mt_statement_next. Finalizes the statement after its last row or a failure. */
bool mt_statement_advance(struct mt_statement *statement, mt_status *status);

void mt_statement_reset(struct mt_statement *statement);
void mt_statement_finalize(struct mt_statement *statement); /* may be NULL */

/* Return the current row's columns, from 0. Text and blobs are borrowed until the next step, reset or finalize; text is
 * NULL if the column is. Values are converted as SQLite converts them. */
int64_t mt_statement_integer(const struct mt_statement *statement, int column);
double mt_statement_real(const struct mt_statement *statement, int column);
const char *mt_statement_text(const struct mt_statement *statement, int column);
const void *mt_statement_blob(const struct mt_statement *statement, int column, size_t *out_bytes);
bool mt_statement_is_null(const struct mt_statement *statement, int column);

/* Returns the number of columns of the statement's rows. */
int mt_statement_columns(const struct mt_statement *statement);

/* Returns a column's name; borrowed until finalize. */
const char *mt_statement_column_name(const struct mt_statement *statement, int column);

/* Returns SQLite's type of the current row's value: SQLITE_INTEGER, …. */
int mt_statement_column_type(const struct mt_statement *statement, int column);

/* True if the statement does not change the database. */
bool mt_statement_is_read_only(const struct mt_statement *statement);
