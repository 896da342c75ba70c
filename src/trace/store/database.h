/* Opening a trace's file, and databases of others.
 *
 * Every file is checked when it is opened, since it may be anybody's: it must be an SQLite database whose application_id
 * says that it is a trace and whose user_version this program knows. A reader opens it read-only.
 *
 * Failures, beside those of connection.h: MT_BAD_TRACE if the file is not a trace or was written by a newer version. */
#pragma once

#include "trace/store/connection.h"

enum { MT_TRACE_APPLICATION_ID = 0x6D747263 }; /* "mtrc", at byte 68 of the file */

/* The limit of event ids and of the number of kernels: an id may be multiplied by a little and added to without
 * overflow. A file with larger ones is damaged. */
#define MT_LAST_POSSIBLE_EVENT (INT64_MAX / 8)

/* Opens the trace at `path`. Creates it with its tables if there is no such file, or an empty one. Journal: WAL,
 * synchronous NORMAL. Nothing of a file that is not a trace is changed. *out is NULL after a failure, here and below. */
mt_status mt_database_open_writing(const char *path, struct mt_database **out);

/* Fails if mt_database_open_writing would refuse `path`: it takes a trace, an empty file and nothing. Changes nothing.
 * Where a transaction has to be undone before the file can be read, the writer has to find out. */
mt_status mt_database_check_writing(const char *path);

/* True if there is a write-ahead log beside the file. */
bool mt_database_has_log(const char *path);

/* Opens the trace at `path` read-only. Most readers want mt_store_open_reading (store.h), which also recovers what a
 * killed process left. */
mt_status mt_database_open_reading(const char *path, struct mt_database **out);

/* Opens a damaged trace read-only, to save what is left of it: pages with wrong checksums are read, too. */
mt_status mt_database_open_damaged(const char *path, struct mt_database **out);

/* Opens one whose first page is lost in the same way, with that of `model`, a trace of this format without rows. */
mt_status mt_database_open_without_first_page(const char *path, const char *model, struct mt_database **out);

/* Opens any database read-only, to import it. It is trusted no more than a trace is. */
mt_status mt_database_open_foreign(const char *path, struct mt_database **out);

/* Makes a database that is no trace in the empty file at `path`, and begins a transaction. For exports: if writing fails
 * the file is of no use, so nothing protects it from a crash. */
mt_status mt_database_create_export(const char *path, struct mt_database **out);

/* Returns `status`, what came of preparing *database for its use. If that failed, closes it, and sets it to NULL. */
mt_status mt_database_keep(mt_status status, struct mt_database **database);
