/* SQLite as the trace's rooms use it: a connection and its statements. Failures are an mt_status with their text.
 *
 * Failures: MT_BAD_TRACE if the file is no SQLite database or is damaged, or a statement takes more than a file of its size
 * needs (bounds.h); for a statement that SQLite does not understand,
 * MT_USAGE if a user wrote it and MT_BAD_TRACE if it is one of ours, since every trace has their tables and columns;
 * MT_FAILED for everything else (disk full, locked, …).
 *
 * Reading the rows of a query takes one shape. No step of it needs a check, because a failure passes through all of them:
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
    MT_ACCESS_READ_UNCHANGING, /* nobody writes the file: SQLite puts nothing beside it */
    MT_ACCESS_WRITE,           /* makes the file if there is none */
    MT_ACCESS_PRIVATE,         /* a database in memory, of this connection alone; `path` is its name in failures */
} mt_access;

/* Has SQLite take memory that is never refused (base/memory.h). Without, some of its functions say NULL where there was a
 * text. For the program alone, before its first connection: in another one, SQLite is not ours. */
void mt_database_end_without_memory(void);

/* Connects to the database at `path`, which is copied, with SQLite's defensive settings. Nothing that the file's own
 * schema says is trusted. The caller closes *out, also after a failure. */
mt_status mt_database_connect(const char *path, mt_access access, struct mt_database **out);

/* Frees the connection; its statements must have been finalized. `database` may be NULL. */
void mt_database_close(struct mt_database *database);

/* Closes as mt_database_close does, for a writer: first folds the WAL into the file. Then the trace is one file, and a
 * reader without write permission can open it. If a reader is in the way, the WAL stays until the next writer closes. */
mt_status mt_database_close_as_one_file(struct mt_database *database);

/* Looks at each of our statements before it is prepared; at what it may read of the file. Its failure is that of the
 * preparation. */
struct mt_statement_guard {
    void *context;
    mt_status (*check)(void *context, struct mt_database *database,
                       const char *sql); /* `sql` NULL: at all of the file */
    void (*destroy)(void *context);
};

/* Sets the connection's guard, of which there is one at most, until it is closed. */
void mt_database_set_guard(struct mt_database *database, struct mt_statement_guard guard);

/* Has the guard look, if there is one. */
mt_status mt_database_guard(struct mt_database *database, const char *sql);

/* Returns the path as it was given to connect; borrowed. */
const char *mt_database_path(const struct mt_database *database);

/* Returns SQLite's connection, for what this header does not offer. */
struct sqlite3 *mt_database_handle(struct mt_database *database);

/* Runs statements without parameters or results, separated by semicolons. */
mt_status mt_database_execute(struct mt_database *database, const char *sql);

/* Begin and end a transaction; it can't be nested. Rollback does nothing if there is none. */
mt_status mt_database_begin(struct mt_database *database);
mt_status mt_database_commit(struct mt_database *database);
void mt_database_rollback(struct mt_database *database);

/* Begin and end reading one state of the file. SQLite then locks the file once and not for every statement, which would
 * take longer than to read a row. May be nested, and lie in a transaction. */
mt_status mt_database_begin_reading(struct mt_database *database);
void mt_database_end_reading(struct mt_database *database);

/* Runs a statement without parameters; *out is the first column of its first row, 0 if that is NULL or absent. */
mt_status mt_database_integer(struct mt_database *database, const char *sql, int64_t *out);

/* Prepares one statement. Fails with MT_USAGE if `sql` has another one after it. The caller finalizes *out before the
 * connection is closed; it is NULL after a failure. */
mt_status mt_database_prepare(struct mt_database *database, const char *sql, struct mt_statement **out);

/* Prepares a statement that a user wrote: if SQLite makes no sense of it, that is MT_USAGE. It may take what it likes. */
mt_status mt_database_prepare_question(struct mt_database *database, const char *sql, struct mt_statement **out);

/* Prepares "INSERT OR REPLACE INTO table (columns) VALUES (?, …)" with a parameter for each of the `columns`, which commas
 * separate, in their order. */
mt_status mt_database_prepare_insert(struct mt_database *database, const char *table, const char *columns,
                                     struct mt_statement **out);

/* A value for a parameter, as one of the macros makes it. A text that is NULL binds NULL. A pointer is for a function of
 * ours, which finds it under MT_POINTER_TYPE; SQL sees NULL. */
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

/* Binds parameter `index`, from 1, of a statement that is reset. Text and blobs are copied. The next step reports the first
 * failure. A statement that is NULL, because its preparation failed, is passed over. */
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

/* Returns the index of the parameter of that name (":run"), 0 if the statement has none. */
int mt_statement_parameter(const struct mt_statement *statement, const char *name);

/* Advances to the next row; *out_row is false if there is none. After the last row or a failure the statement is reset,
 * and can be bound and stepped anew. */
mt_status mt_statement_step(struct mt_statement *statement, bool *out_row);

/* Advances if *status is MT_OK, and sets it. True if there is a row. */
bool mt_statement_next(struct mt_statement *statement, mt_status *status);

/* Steps a statement once and resets it: for one that returns no rows. */
mt_status mt_statement_run(struct mt_statement *statement);

/* Goes through the rows of a query, unless `status` is a failure already. The values that follow, one at least, are those
 * of its parameters. Sets `status`; so may the body, and its failure ends the rows, too. The body must not leave them by
 * break or return. */
#define MT_EACH_ROW(row, status, database, sql, ...)                                                                   \
    for (struct mt_statement *row = mt_statement_begin((database), (sql), MT_BOUND_LIST(__VA_ARGS__), &(status));      \
         mt_statement_advance(row, &(status));)

/* Prepares and binds a statement, unless *status is a failure, and sets that. NULL after a failure. */
struct mt_statement *mt_statement_begin(struct mt_database *database, const char *sql, const struct mt_bound *values,
                                        int count, mt_status *status);

/* As mt_statement_next. Finalizes the statement after its last row or a failure. */
bool mt_statement_advance(struct mt_statement *statement, mt_status *status);

void mt_statement_reset(struct mt_statement *statement);
void mt_statement_finalize(struct mt_statement *statement); /* may be NULL */

/* Return the current row's columns, from 0. Text and blobs are borrowed until the next step, reset or finalize; text is
 * NULL where the column is. Values are converted as SQLite converts them. */
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

/* True if the statement leaves the database as it is. */
bool mt_statement_is_read_only(const struct mt_statement *statement);
