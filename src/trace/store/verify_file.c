#include "trace/store/verify_file.h"

#include "base/memory.h"
#include "trace/store/database.h"
#include "trace/store/page_file.h"

#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */

static mt_status check_pages(struct mt_database *database, struct mt_verify_rows *out)
{
    int64_t pages, damaged, first;
    struct mt_text found = {0};
    sqlite3 *handle = mt_database_handle(database);
    const mt_page_state state = mt_page_file_state(handle);
    if (mt_page_file_compare(handle, &pages, &damaged, &first) != SQLITE_OK)
        return mt_fail(MT_FAILED, "%s: reading its pages failed", mt_database_path(database));
    if (state == MT_PAGES_CHANGED)
        mt_text_add(&found, "not compared: another program has changed the file");
    else if (state != MT_PAGES_CHECKED)
        mt_text_add(&found, "have no checksums: written by an older memtrace");
    else if (damaged > 0)
        mt_text_add(&found, "%" PRId64 " of %" PRId64 " do not match their checksums, the first is page %" PRId64,
                    damaged, pages, first);
    else
        mt_text_add(&found, "%" PRId64 ", all as they were written", pages);
    const mt_verify_result compared = damaged == 0 ? MT_VERIFY_WHOLE : MT_VERIFY_DAMAGED;
    mt_verify_rows_add(out, 0, "pages", state == MT_PAGES_CHECKED ? compared : MT_VERIFY_UNKNOWN, &found);
    return MT_OK;
}

static mt_status check_trees(struct mt_database *database, struct mt_verify_rows *out)
{
    bool is_whole = true;
    struct mt_text found = {0};
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, database, "SELECT integrity_check FROM pragma_integrity_check(?1)", MT_BIND_INTEGER(1)) {
        const char *text = mt_statement_text(row, 0);
        const char *line = text != NULL ? strrchr(text, '\n') : NULL; /* the first line names the database */
        is_whole = text != NULL && strcmp(text, "ok") == 0;
        if (is_whole)
            mt_text_add(&found, "SQLite's integrity check finds nothing");
        else
            mt_text_add(&found, "SQLite's integrity check: %s", line != NULL ? line + 1 : text);
    }
    if (status == MT_OK)
        mt_verify_rows_add(out, 0, "database", is_whole ? MT_VERIFY_WHOLE : MT_VERIFY_DAMAGED, &found);
    mt_text_release(&found);
    return mt_verify_rows_add_failure(out, 0, "database", status);
}

mt_status mt_verify_file(struct mt_database *database, struct mt_verify_rows *out)
{
    MT_TRY(check_pages(database, out));
    return check_trees(database, out);
}

/* ---- on a thread ---- */

/* Below this size, a second connection takes longer than the checks. */
enum { WORTH_A_THREAD_BYTES = 2 << 20 };

struct mt_verify_file {
    pthread_t thread;
    char *path;
    struct mt_verify_rows rows;
    mt_status status;
};

static void *check_on_thread(void *context)
{
    struct mt_verify_file *file = context;
    struct mt_database *database;
    file->status = mt_database_open_reading(file->path, &database);
    MT_THEN(file->status, mt_verify_file(database, &file->rows));
    mt_database_close(database);
    return NULL;
}

/* True if another connection to the file sees the same data. The copy of a recovered trace has no name, and
 * a run in progress has derived rows that are not in the file. */
static bool is_in_file(struct mt_database *database)
{
    sqlite3 *handle = mt_database_handle(database);
    return sqlite3_db_readonly(handle, "main") == 1 && sqlite3_get_autocommit(handle);
}

static void release(struct mt_verify_file *file)
{
    free(file->path);
    free(file);
}

struct mt_verify_file *mt_verify_file_begin(struct mt_database *database)
{
    if (mt_page_file_bytes(mt_database_handle(database)) < WORTH_A_THREAD_BYTES || !is_in_file(database))
        return NULL;
    struct mt_verify_file *file = mt_host_alloc(sizeof *file);
    *file = (struct mt_verify_file){.path = mt_host_strdup(mt_database_path(database))};
    if (pthread_create(&file->thread, NULL, check_on_thread, file) == 0)
        return file;
    release(file);
    return NULL;
}

/* True if another file has the name now. */
static bool has_moved(struct mt_database *database)
{
    int moved = 0;
    sqlite3_file_control(mt_database_handle(database), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved != 0;
}

mt_status mt_verify_file_end(struct mt_verify_file *file, struct mt_database *database, struct mt_verify_rows *out)
{
    pthread_join(file->thread, NULL);
    const bool is_done = file->status == MT_OK && !has_moved(database);
    if (is_done)
        *out = file->rows;
    else
        mt_verify_rows_release(&file->rows);
    release(file);
    return is_done ? MT_OK : mt_verify_file(database, out);
}
