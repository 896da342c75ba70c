/* The checks of verify.h that concern the file: its pages, and SQLite's trees. They read every page, like the checks of
 * runs, and take a third of the time. So a thread makes them on a separate connection while the runs are checked. */
#pragma once

#include "trace/store/connection.h"
#include "trace/store/verify_rows.h"

/* Checks the file. Fails if it can't be read. */
mt_status mt_verify_file(struct mt_database *database, struct mt_verify_rows *out);

/* Begins to check the file of `database` on a thread. Returns NULL if the file is too small for that, another
 * connection would not see the same, or there is no thread. */
struct mt_verify_file;
struct mt_verify_file *mt_verify_file_begin(struct mt_database *database);

/* Waits for the thread, and frees `file`. If another file has the name now, or the thread has failed, checks the file
 * here; fails as mt_verify_file. `database` is the one given to begin. */
mt_status mt_verify_file_end(struct mt_verify_file *file, struct mt_database *database, struct mt_verify_rows *out);
