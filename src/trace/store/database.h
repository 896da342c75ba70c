/* SQLite, as this folder speaks it: a connection and a statement, failures as mt_status with their text recorded.
 *
 * A foreign file is damage waiting to happen, so every file is checked when it is opened: it must be an SQLite database
 * whose application_id says that it is a trace and whose user_version this program knows. What is opened for reading is
 * opened read-only, with SQLite's defensive settings, and trusts nothing that the file's own schema says.
 *
 * Failures: MT_BAD_TRACE if the file is not a trace, is damaged or was written by a newer version; MT_USAGE if
 * SQLite does not understand what a user wrote, but MT_BAD_TRACE for our own statements, whose tables and columns every
 * trace has; MT_FAILED for everything else (no such file, disk full, locked, …).
 *
 * Threads: a connection and its statements are used by one thread at a time. */
#ifndef MT_TRACE_DATABASE_H
#define MT_TRACE_DATABASE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_database;
struct mt_statement;
struct sqlite3;

enum {
    MT_TRACE_APPLICATION_ID = 0x6D747263,  /* "mtrc", at byte 68 of the file */
    MT_TRACE_FORMAT = 3,                   /* user_version: grows when an older program could no longer read the file,
                                           * or its ring */
    MT_TRACE_FORMAT_WITHOUT_USES = 1,      /* there was no table block_use yet; its writers add it */
    MT_TRACE_FORMAT_OF_WHOLE_SEGMENTS = 2, /* nor segment_part: segments were mapped and unmapped as a whole, at no
                                            * offset; its writers add the table, and readers have a view in its place */
};

/* No event has an id above it, nor are there so many kernels: an id may be multiplied by a little and added to without a
 * look at what becomes of it. A file that says otherwise is damaged. */
#define MT_LAST_POSSIBLE_EVENT (INT64_MAX / 8)

/* Opens the trace at `path`, creating it with its tables if there is no such file (or an empty one). Journal: WAL,
 * synchronous NORMAL. Nothing of a file that is not a trace is changed. */
mt_status mt_database_open_writing(const char *path, struct mt_database **out);

/* Whether mt_database_open_writing would take what lies at `path`: a trace, an empty file or nothing. Changes nothing, and
 * so leaves the answer to the writer where a transaction has to be undone first. */
mt_status mt_database_check_writing(const char *path);

/* Whether there is a write-ahead log beside the file, with what that lacks. */
bool mt_database_has_log(const char *path);

/* Opens the trace at `path` read-only. Most readers want mt_store_open_reading (store.h), which also recovers what a
 * killed process left. */
mt_status mt_database_open_reading(const char *path, struct mt_database **out);

/* Opens a database that others made, whatever it holds, read-only. What it says of itself is believed no more than what a
 * trace says. */
mt_status mt_database_open_foreign(const char *path, struct mt_database **out);

/* Makes a database that is no trace in the empty file at `path`, and begins a transaction: for what is exported, whose
 * file is of no use where writing it failed, and so needs no care. */
mt_status mt_database_create_export(const char *path, struct mt_database **out);

/* Frees the connection; its statements must have been finalized. `database` may be NULL. */
void mt_database_close(struct mt_database *database);

/* As mt_database_close, for a writer: first folds the WAL into the file, so that it is one file that also a reader
 * without write permission can open. If a reader is in the way the WAL stays until the next writer closes. */
mt_status mt_database_close_as_one_file(struct mt_database *database);

const char *mt_database_path(const struct mt_database *database); /* borrowed; as opened */
struct sqlite3 *mt_database_handle(struct mt_database *database); /* for what this header does not offer */

/* Runs statements without parameters or results, separated by semicolons. */
mt_status mt_database_execute(struct mt_database *database, const char *sql);

/* A transaction. Between begin and commit or rollback there is exactly one; rollback of none does nothing. */
mt_status mt_database_begin(struct mt_database *database);
mt_status mt_database_commit(struct mt_database *database);
void mt_database_rollback(struct mt_database *database);

/* Between the two a reader sees one state of the file, and SQLite locks it once and not for every statement, which takes
 * longer than to read a row. May be nested, and lie in a transaction. End what was begun. */
mt_status mt_database_begin_reading(struct mt_database *database);
void mt_database_end_reading(struct mt_database *database);

/* One number from a statement without parameters: the first column of its first row, 0 if that is NULL or absent. */
mt_status mt_database_integer(struct mt_database *database, const char *sql, int64_t *out);

/* Prepares one statement; another one after it is MT_USAGE. Owned by the caller, who finalizes it before the connection
 * is closed. */
mt_status mt_database_prepare(struct mt_database *database, const char *sql, struct mt_statement **out);

/* The same for what a user wrote: then what SQLite makes no sense of is MT_USAGE. */
mt_status mt_database_prepare_question(struct mt_database *database, const char *sql, struct mt_statement **out);

/* Binds parameter `index` (from 1). Text and blobs are copied. A failure is kept and reported by the next step, so
 * that callers can bind a row of values without a check after each. */
void mt_statement_bind_integer(struct mt_statement *statement, int index, int64_t value);
void mt_statement_bind_real(struct mt_statement *statement, int index, double value);
void mt_statement_bind_text(struct mt_statement *statement, int index, const char *value); /* NULL binds NULL */
void mt_statement_bind_blob(struct mt_statement *statement, int index, const void *data, size_t bytes);
void mt_statement_bind_null(struct mt_statement *statement, int index);

/* The index of the parameter of that name (":run"), 0 if the statement has none. */
int mt_statement_parameter(const struct mt_statement *statement, const char *name);

/* Advances to the next row: *out_row tells whether there is one. After the last row or a failure the statement is reset
 * and can be bound and stepped anew. */
mt_status mt_statement_step(struct mt_statement *statement, bool *out_row);

/* Steps a statement that returns no rows, once, and resets it. */
mt_status mt_statement_run(struct mt_statement *statement);

void mt_statement_reset(struct mt_statement *statement);
void mt_statement_finalize(struct mt_statement *statement); /* may be NULL */

/* The current row's columns, from 0. Text and blobs are borrowed until the next step, reset or finalize; text is NULL
 * where the column is. Values are converted as SQLite converts them. */
int64_t mt_statement_integer(const struct mt_statement *statement, int column);
double mt_statement_real(const struct mt_statement *statement, int column);
const char *mt_statement_text(const struct mt_statement *statement, int column);
const void *mt_statement_blob(const struct mt_statement *statement, int column, size_t *out_bytes);
bool mt_statement_is_null(const struct mt_statement *statement, int column);

/* What a statement returns, for callers that did not write it. */
typedef enum mt_column_type {
    MT_COLUMN_NULL,
    MT_COLUMN_INTEGER,
    MT_COLUMN_REAL,
    MT_COLUMN_TEXT,
    MT_COLUMN_BLOB
} mt_column_type;

int mt_statement_columns(const struct mt_statement *statement);
const char *mt_statement_column_name(const struct mt_statement *statement, int column); /* borrowed until finalize */
mt_column_type mt_statement_column_type(const struct mt_statement *statement,
                                        int column); /* of the current row's value */

/* Whether it leaves the database as it is. */
bool mt_statement_is_read_only(const struct mt_statement *statement);

#endif
