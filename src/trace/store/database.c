#include "trace/store/database.h"

#include "base/text.h"
#include "trace/store/page_file.h"
#include "trace/store/trace_format.h"
#include "trace/store/user_indexes.h"

#include <assert.h>
#include <limits.h>
#include <sqlite3.h>
#include <unistd.h>

/* The limit of a text or blob in an untrusted file; in a trace, in addition to its size. Linked pages may claim any
 * length. */
enum { MOST_FOREIGN_BYTES = 1 << 24 };

/* Pages have 16 KiB: a run of 100 steps then takes a tenth less time than with SQLite's 4 KiB, though an empty trace
 * has 288 KiB instead of 80. The WAL is folded back into the file every 64 MiB, because each time costs a sync of
 * both. */
static const char writer_pragmas[] = "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                                     "PRAGMA wal_autocheckpoint = 4096; PRAGMA cache_size = -32768";

/* The identity of a file. All 0: it is empty. */
struct identity {
    int64_t tables, application, format; /* sqlite_schema's rows, application_id, user_version */
};

static mt_status read_identity(struct mt_database *database, struct identity *out)
{
    MT_TRY(mt_database_integer(database, "SELECT count(*) FROM sqlite_schema", &out->tables));
    MT_TRY(mt_database_integer(database, "PRAGMA application_id", &out->application));
    return mt_database_integer(database, "PRAGMA user_version", &out->format);
}

static bool identity_is_blank(const struct identity *identity)
{
    return identity->tables == 0 && identity->application == 0 && identity->format == 0;
}

/* Fails unless the file is a trace of a known format. */
static mt_status check_identity(struct mt_database *database, const struct identity *identity)
{
    if (identity->application != MT_TRACE_APPLICATION_ID)
        return mt_fail(MT_BAD_TRACE, "%s is not a trace (%s)", mt_database_path(database),
                       identity_is_blank(identity) ? "it is empty" : "an SQLite database of another program");
    if (identity->format < 1)
        return mt_fail(MT_BAD_TRACE, "%s is damaged: it has no format", mt_database_path(database));
    if (identity->format > MT_TRACE_FORMAT)
        return mt_fail(MT_BAD_TRACE, "%s was written by a newer memtrace (format %lld; this one reads up to %d)",
                       mt_database_path(database), (long long)identity->format, MT_TRACE_FORMAT);
    return mt_trace_format_check(database, identity->format);
}

mt_status mt_database_keep(mt_status status, struct mt_database **database)
{
    if (status == MT_OK)
        return MT_OK;
    mt_database_close(*database);
    *database = NULL;
    return status;
}

mt_status mt_database_create_export(const char *path, struct mt_database **out)
{
    mt_status status = mt_database_connect(path, MT_ACCESS_WRITE, out);
    MT_THEN(status, mt_database_execute(*out, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
                                              " PRAGMA locking_mode = EXCLUSIVE; BEGIN"));
    return mt_database_keep(status, out);
}

static mt_status check_and_view(struct mt_database *database)
{
    struct identity identity;
    MT_TRY(read_identity(database, &identity));
    MT_TRY(check_identity(database, &identity));
    MT_TRY(mt_user_indexes_distrust(database));
    return mt_trace_format_view(database, identity.format);
}

static void bound_texts(struct mt_database *database)
{
    const int64_t bytes = MOST_FOREIGN_BYTES + mt_page_file_bytes(mt_database_handle(database));
    sqlite3_limit(mt_database_handle(database), SQLITE_LIMIT_LENGTH, bytes < INT_MAX ? (int)bytes : INT_MAX);
}

/* Reads and checks the connected database. */
static mt_status finish_reading(mt_status status, struct mt_database **out)
{
    MT_THEN(status, mt_database_begin_reading(*out));
    if (status == MT_OK) {
        status = check_and_view(*out);
        bound_texts(*out);
        mt_database_end_reading(*out);
    }
    return mt_database_keep(status, out);
}

mt_status mt_database_open_reading(const char *path, struct mt_database **out)
{
    return finish_reading(mt_database_connect(path, MT_ACCESS_READ, out), out);
}

mt_status mt_database_open_damaged(const char *path, struct mt_database **out)
{
    mt_status status = mt_database_connect(path, MT_ACCESS_READ, out);
    if (status == MT_OK)
        mt_page_file_tolerate(mt_database_handle(*out));
    return finish_reading(status, out);
}

mt_status mt_database_open_without_first_page(const char *path, const char *model, struct mt_database **out)
{
    mt_status status = mt_database_connect(path, MT_ACCESS_READ, out);
    if (status == MT_OK)
        mt_page_file_tolerate(mt_database_handle(*out));
    if (status == MT_OK && mt_page_file_take_first(mt_database_handle(*out), model) != SQLITE_OK)
        status = mt_fail(MT_FAILED, "%s: its first page can't be read", model);
    return finish_reading(status, out);
}

bool mt_database_has_log(const char *path)
{
    struct mt_text log = {0};
    mt_text_add(&log, "%s-wal", path);
    bool is_there = access(mt_text_get(&log), F_OK) == 0;
    mt_text_release(&log);
    return is_there;
}

mt_status mt_database_open_foreign(const char *path, struct mt_database **out)
{
    mt_access access = mt_database_has_log(path) ? MT_ACCESS_READ : MT_ACCESS_READ_UNCHANGING;
    mt_status status = mt_database_connect(path, access, out);
    if (status == MT_OK)
        sqlite3_limit(mt_database_handle(*out), SQLITE_LIMIT_LENGTH, MOST_FOREIGN_BYTES);
    return mt_database_keep(status, out);
}

/* Reserves room at the end of each page of an empty file for its checksum. */
static mt_status reserve_page_ends(struct mt_database *database)
{
    if (mt_page_file_reserve(mt_database_handle(database)) == SQLITE_OK)
        return MT_OK;
    return mt_fail(MT_FAILED, "%s: %s", mt_database_path(database), sqlite3_errmsg(mt_database_handle(database)));
}

static mt_status set_up_writing(struct mt_database *database)
{
    struct identity identity;
    if (sqlite3_db_readonly(mt_database_handle(database), "main") == 1)
        return mt_fail(MT_FAILED, "can't write %s: no permission", mt_database_path(database));
    mt_status status = read_identity(database, &identity);
    const bool is_blank = identity_is_blank(&identity);
    MT_THEN(status, is_blank ? reserve_page_ends(database) : check_identity(database, &identity));
    if (status == MT_OK && !is_blank)
        status = mt_user_indexes_distrust(database);
    MT_THEN(status, mt_database_execute(database, writer_pragmas));
    if (status != MT_OK)
        return status;
    assert(identity.format <= MT_TRACE_FORMAT);
    return identity.format < MT_TRACE_FORMAT
               ? mt_trace_format_upgrade(database, identity.format, MT_TRACE_APPLICATION_ID)
               : MT_OK;
}

/* Fails if a writer would refuse the file. A killed writer may have left it in a state that only a writer can read. */
static mt_status check_writable_identity(struct mt_database *database)
{
    struct identity identity;
    mt_status status = read_identity(database, &identity);
    if (status != MT_OK && (sqlite3_errcode(mt_database_handle(database)) & 0xFF) == SQLITE_READONLY)
        return MT_OK;
    return status == MT_OK && !identity_is_blank(&identity) ? check_identity(database, &identity) : status;
}

mt_status mt_database_check_writing(const char *path)
{
    struct mt_database *database;
    if (access(path, F_OK) != 0)
        return MT_OK;
    mt_status status = mt_database_connect(path, MT_ACCESS_READ, &database);
    MT_THEN(status, mt_database_begin_reading(database));
    if (status == MT_OK) {
        status = check_writable_identity(database);
        mt_database_end_reading(database);
    }
    mt_database_close(database);
    return status;
}

mt_status mt_database_open_writing(const char *path, struct mt_database **out)
{
    mt_status status = mt_database_connect(path, MT_ACCESS_WRITE, out);
    MT_THEN(status, set_up_writing(*out));
    return mt_database_keep(status, out);
}
