/* Opens a trace's file, and databases of other programs.
 *
 * Every file is checked when it is opened, since it may be untrusted: it must be an SQLite database whose
 * application_id is a trace's and whose user_version this program knows. A reader opens it read-only.
 *
 * Failures, in addition to connection.h: MT_BAD_TRACE if the file is not a trace or was written by a newer version. */
#pragma once

#include "trace/store/connection.h"

enum { MT_TRACE_APPLICATION_ID = 0x6D747263 }; /* "mtrc", at byte 68 of the file */

/* The limit of event ids and of the number of kernels: ids may be multiplied by small factors and added to without
 * overflow. A file with larger ones is damaged. */
#define MT_LAST_POSSIBLE_EVENT (INT64_MAX / 8)

/* Opens the trace at `path`. Creates it with its tables if there is no such file, or an empty one. Journal: WAL,
 * synchronous NORMAL. A file that is not a trace is not changed. *out is NULL after a failure, here and below. */
mt_status mt_database_open_writing(const char *path, struct mt_database **out);

/* Fails if mt_database_open_writing would refuse `path`. It accepts a trace, an empty file, and a missing file. Changes
 * nothing. If the file can be read only after a transaction is rolled back, it is not checked here. */
mt_status mt_database_check_writing(const char *path);

/* True if the file has a write-ahead log. */
bool mt_database_has_log(const char *path);

/* Opens the trace at `path` read-only. Most readers need mt_store_open_reading (store.h), which also recovers a
 * killed process's records. */
mt_status mt_database_open_reading(const char *path, struct mt_database **out);

/* Opens a damaged trace read-only, to salvage it: pages with wrong checksums are read, too. */
mt_status mt_database_open_damaged(const char *path, struct mt_database **out);

/* The same for a trace whose first page is lost: reads the first page of `model`, a trace of this format without
 * rows. */
mt_status mt_database_open_without_first_page(const char *path, const char *model, struct mt_database **out);

/* Opens any database read-only, to import it. It is trusted no more than a trace. */
mt_status mt_database_open_foreign(const char *path, struct mt_database **out);

/* Creates a database that is not a trace in the empty file at `path`, and begins a transaction. For exports: if writing
 * fails the file is useless, so nothing protects it from a crash. */
mt_status mt_database_create_export(const char *path, struct mt_database **out);

/* Returns `status`, the result of preparing *database for its use. If it is a failure, closes *database, and sets it to
 * NULL. */
mt_status mt_database_keep(mt_status status, struct mt_database **database);
