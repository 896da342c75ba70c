/* The connection of database.h: opening, what a file must be to be opened, and transactions. Error texts start here,
 * where SQLite's code and message are both at hand. */
#include "trace/store/database_parts.h"

#include "base/event.h"
#include "base/memory.h"
#include "base/text.h"
#include "mt_schema_sql.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUSY_WAIT_MS = 5000 };

/* Of a text or blob in a file of others. */
enum { MOST_FOREIGN_BYTES = 1 << 24 };

/* Pages are of 16 KiB: a run of 100 steps then takes a tenth less time than with SQLite's 4 KiB, and an empty trace is of
 * 288 KiB and not 80. The WAL is folded back into the file every 64 MiB: each time costs a sync of both. */
static const char WRITER_PRAGMAS[] = "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                                     "PRAGMA wal_autocheckpoint = 4096; PRAGMA cache_size = -32768";

/* What is wrong with the file or its disk, when that is what a code says; NULL otherwise. */
static const char *damage_text(int code)
{
    switch (code & 0xFF) {
    case SQLITE_NOTADB:
        return "is not a trace (not an SQLite database)";
    case SQLITE_CORRUPT:
        return "is damaged or was cut short";
    }
    return NULL;
}

mt_status mt_database_fail(const struct mt_database *database, int code)
{
    if (damage_text(code) != NULL)
        return mt_fail(MT_BAD_TRACE, "%s %s", database->path, damage_text(code));
    const char *text = sqlite3_errmsg(database->handle);
    if ((code & 0xFF) == SQLITE_ERROR)
        return mt_fail(MT_BAD_TRACE, "%s is damaged (%s)", database->path, text);
    if ((code & 0xFF) == SQLITE_FULL)
        return mt_fail(MT_FAILED, "%s: no space left on the disk", database->path);
    if ((code & 0xFF) == SQLITE_IOERR)
        return mt_fail(MT_FAILED, "%s: reading or writing failed (%s, code %d: %s)", database->path, text, code,
                       strerror(sqlite3_system_errno(database->handle)));
    return mt_fail(MT_FAILED, "%s: %s", database->path, text);
}

mt_status mt_database_check(const struct mt_database *database, int code)
{
    if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW)
        return MT_OK;
    return mt_database_fail(database, code);
}

void mt_database_close(struct mt_database *database)
{
    if (database == NULL)
        return;
    sqlite3_close_v2(database->handle);
    free(database->path);
    free(database);
}

static mt_status fail_to_open(const struct mt_database *database)
{
    int error = sqlite3_system_errno(database->handle);
    const char *reason = error != 0 ? strerror(error) : sqlite3_errmsg(database->handle);
    return mt_fail(MT_FAILED, "can't open %s: %s", database->path, reason);
}

/* The path as SQLite takes it for nothing but a path: ":memory:" and "file:…" mean something else to it. */
static char *plain_name(const char *path)
{
    struct mt_text name = {0};
    mt_text_add(&name, "%s%s", path[0] == '/' ? "" : "./", path);
    return name.data;
}

/* The path as a URI, of a file that nobody changes: then SQLite puts nothing beside it, also where it says that it has a
 * write-ahead log. */
static char *unchanging_name(const char *path)
{
    struct mt_text name = {0};
    mt_text_add(&name, "file:%s", path[0] == '/' ? "//" : "./");
    for (; *path != '\0'; path++)
        if (strchr("%?#", *path) != NULL)
            mt_text_add(&name, "%%%02X", (unsigned)(unsigned char)*path);
        else
            mt_text_add(&name, "%c", *path);
    mt_text_add(&name, "?immutable=1");
    return name.data;
}

/* Takes the name. */
static mt_status connect_name(const char *path, char *name, int flags, struct mt_database **out)
{
    struct mt_database *database = mt_host_alloc(sizeof *database);
    database->path = mt_host_strdup(path);
    *out = database;
    int code = sqlite3_open_v2(name, &database->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    free(name);
    if (code != SQLITE_OK)
        return fail_to_open(database);
    sqlite3_extended_result_codes(database->handle, 1);
    sqlite3_busy_timeout(database->handle, BUSY_WAIT_MS);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL); /* we have none */
    return mt_database_execute(database, "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY");
}

static mt_status connect_file(const char *path, int flags, struct mt_database **out)
{
    return connect_name(path, plain_name(path), flags, out);
}

static mt_status check_table(struct mt_database *database, struct mt_statement *statement, const char *name)
{
    bool row;
    mt_statement_bind_text(statement, 1, name);
    mt_status status = mt_statement_step(statement, &row);
    mt_statement_reset(statement);
    if (status == MT_OK && !row)
        return mt_fail(MT_BAD_TRACE, "%s is damaged (there is no table %s)", database->path, name);
    return status;
}

/* Whether the tables are there, and those that everything rests on have the columns that recovery reads. */
static mt_status check_tables(struct mt_database *database, int64_t format)
{
    static const char *const tables[] = {"run",
                                         "setting",
                                         "measurement",
                                         "span",
                                         "label",
                                         "event",
                                         "kernel",
                                         "kernel_name",
                                         "event_kind",
                                         "segment",
                                         "step",
                                         "checkpoint",
                                         "summary_peak",
                                         "summary_peak_category",
                                         "summary_category",
                                         "summary_allocation",
                                         "block_use",
                                         "segment_part"};
    size_t count = sizeof tables / sizeof tables[0] - (format <= MT_TRACE_FORMAT_WITHOUT_USES) -
                   (format <= MT_TRACE_FORMAT_OF_WHOLE_SEGMENTS);
    struct mt_statement *statement;
    int64_t unused;
    mt_status status =
        mt_database_prepare(database, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", &statement);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = check_table(database, statement, tables[i]);
    mt_statement_finalize(statement);
    if (status != MT_OK)
        return status;
    return mt_database_integer(
        database, "SELECT event_count + ring_position + time_ns + duration_ns FROM run, event, kernel LIMIT 0",
        &unused);
}

/* What a file says it is. */
struct identity {
    int64_t tables, application, format;
};

static mt_status read_identity(struct mt_database *database, struct identity *out)
{
    mt_status status = mt_database_integer(database, "SELECT count(*) FROM sqlite_schema", &out->tables);
    if (status == MT_OK)
        status = mt_database_integer(database, "PRAGMA application_id", &out->application);
    if (status == MT_OK)
        status = mt_database_integer(database, "PRAGMA user_version", &out->format);
    return status;
}

static bool identity_is_blank(const struct identity *identity)
{
    return identity->tables == 0 && identity->application == 0 && identity->format == 0;
}

/* Whether the file is a trace that this program knows. */
static mt_status check_identity(struct mt_database *database, const struct identity *identity)
{
    if (identity->application != MT_TRACE_APPLICATION_ID)
        return mt_fail(MT_BAD_TRACE, "%s is not a trace (%s)", database->path,
                       identity_is_blank(identity) ? "it is empty" : "an SQLite database of another program");
    if (identity->format > MT_TRACE_FORMAT)
        return mt_fail(MT_BAD_TRACE, "%s was written by a newer memtrace (format %lld; this one reads up to %d)",
                       database->path, (long long)identity->format, MT_TRACE_FORMAT);
    return check_tables(database, identity->format);
}

static mt_status finish_open(struct mt_database *database, mt_status status, struct mt_database **out)
{
    if (status == MT_OK) {
        *out = database;
        return MT_OK;
    }
    mt_database_close(database);
    return status;
}

/* The parts of segments that are mapped and unmapped as a whole, as rows of table segment_part. */
#define WHOLE_SEGMENTS "SELECT run, id AS segment, 0 AS offset, mapped_event, bytes, unmapped_event FROM main.segment"

mt_status mt_database_create_export(const char *path, struct mt_database **out)
{
    mt_status status = connect_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, out);
    if (status == MT_OK)
        status = mt_database_execute(*out, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
                                           " PRAGMA locking_mode = EXCLUSIVE; BEGIN");
    if (status != MT_OK) {
        mt_database_close(*out);
        *out = NULL;
    }
    return status;
}

mt_status mt_database_open_reading(const char *path, struct mt_database **out)
{
    struct mt_database *database;
    struct identity identity;
    *out = NULL;
    mt_status status = connect_file(path, SQLITE_OPEN_READONLY, &database);
    if (status == MT_OK)
        status = read_identity(database, &identity);
    if (status == MT_OK)
        status = check_identity(database, &identity);
    if (status == MT_OK && identity.format <= MT_TRACE_FORMAT_OF_WHOLE_SEGMENTS)
        status = mt_database_execute(database, "CREATE TEMP VIEW segment_part AS " WHOLE_SEGMENTS);
    return finish_open(database, status, out);
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
    struct mt_database *database;
    *out = NULL;
    mt_status status = mt_database_has_log(path) ? connect_file(path, SQLITE_OPEN_READONLY, &database)
                                                 : connect_name(path, unchanging_name(path),
                                                                SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, &database);
    if (status == MT_OK)
        sqlite3_limit(database->handle, SQLITE_LIMIT_LENGTH, MOST_FOREIGN_BYTES);
    if (status == MT_OK)
        status = mt_database_execute(database, "PRAGMA ignore_check_constraints = ON"); /* which may compute anything */
    return finish_open(database, status, out);
}

static mt_status add_event_kinds(struct mt_database *database)
{
    struct mt_statement *statement;
    mt_status status = mt_database_prepare(database, "INSERT OR REPLACE INTO event_kind VALUES (?, ?)", &statement);
    if (status != MT_OK)
        return status;
    for (int kind = 0; kind < MT_EVENT_KIND_COUNT && status == MT_OK; kind++) {
        mt_statement_bind_integer(statement, 1, kind);
        mt_statement_bind_text(statement, 2, mt_event_kind_name((mt_event_kind)kind));
        status = mt_statement_run(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

static mt_status add_tables(struct mt_database *database)
{
    struct mt_text identity = {0};
    mt_text_add(&identity, "PRAGMA application_id = %d; PRAGMA user_version = %d", MT_TRACE_APPLICATION_ID,
                MT_TRACE_FORMAT);
    mt_status status = mt_database_execute(database, mt_schema_sql);
    if (status == MT_OK)
        status = mt_database_execute(database, "INSERT OR IGNORE INTO segment_part " WHOLE_SEGMENTS);
    if (status == MT_OK)
        status = mt_database_execute(database, identity.data);
    mt_text_release(&identity);
    return status == MT_OK ? add_event_kinds(database) : status;
}

/* What an empty database or one of an older format lacks. All or nothing: a process that dies in here leaves it as it
 * was, and the next writer does this. */
static mt_status create_tables(struct mt_database *database)
{
    mt_status status = mt_database_begin(database);
    if (status == MT_OK)
        status = add_tables(database);
    if (status == MT_OK)
        return mt_database_commit(database);
    mt_database_rollback(database);
    return status;
}

static mt_status set_up_writing(struct mt_database *database)
{
    struct identity identity;
    if (sqlite3_db_readonly(database->handle, "main") == 1)
        return mt_fail(MT_FAILED, "can't write %s: no permission", database->path);
    mt_status status = read_identity(database, &identity);
    if (status == MT_OK && !identity_is_blank(&identity))
        status = check_identity(database, &identity);
    if (status == MT_OK)
        status = mt_database_execute(database, WRITER_PRAGMAS);
    return status == MT_OK && identity.format < MT_TRACE_FORMAT ? create_tables(database) : status;
}

/* Whether a writer would take the file. One that was killed may have left it so that only a writer can read it. */
static mt_status check_writable_identity(struct mt_database *database)
{
    struct identity identity;
    mt_status status = read_identity(database, &identity);
    if (status != MT_OK && (sqlite3_errcode(database->handle) & 0xFF) == SQLITE_READONLY)
        return MT_OK;
    return status == MT_OK && !identity_is_blank(&identity) ? check_identity(database, &identity) : status;
}

mt_status mt_database_check_writing(const char *path)
{
    struct mt_database *database;
    if (access(path, F_OK) != 0)
        return MT_OK;
    mt_status status = connect_file(path, SQLITE_OPEN_READONLY, &database);
    if (status == MT_OK)
        status = check_writable_identity(database);
    mt_database_close(database);
    return status;
}

mt_status mt_database_open_writing(const char *path, struct mt_database **out)
{
    struct mt_database *database;
    *out = NULL;
    mt_status status = connect_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &database);
    if (status == MT_OK)
        status = set_up_writing(database);
    return finish_open(database, status, out);
}

mt_status mt_database_close_as_one_file(struct mt_database *database)
{
    /* A reader in the way makes this fail at once, not after the busy timeout: nobody should wait for it. */
    sqlite3_busy_timeout(database->handle, 0);
    int code = sqlite3_exec(database->handle, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    mt_status status = code == SQLITE_BUSY || code == SQLITE_LOCKED ? MT_OK : mt_database_check(database, code);
    mt_database_close(database);
    return status;
}

const char *mt_database_path(const struct mt_database *database)
{
    return database->path;
}

struct sqlite3 *mt_database_handle(struct mt_database *database)
{
    return database->handle;
}

mt_status mt_database_execute(struct mt_database *database, const char *sql)
{
    return mt_database_check(database, sqlite3_exec(database->handle, sql, NULL, NULL, NULL));
}

mt_status mt_database_begin(struct mt_database *database)
{
    return mt_database_execute(database, "BEGIN");
}

mt_status mt_database_commit(struct mt_database *database)
{
    return mt_database_execute(database, "COMMIT");
}

void mt_database_rollback(struct mt_database *database)
{
    /* A failure here is the one that led here, again: it is recorded already. */
    if (!sqlite3_get_autocommit(database->handle))
        sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
}

mt_status mt_database_begin_reading(struct mt_database *database)
{
    return mt_database_execute(database, "SAVEPOINT reading");
}

void mt_database_end_reading(struct mt_database *database)
{
    /* Nothing was written, so there is nothing that could fail, and no error of the reader's to be replaced. */
    sqlite3_exec(database->handle, "RELEASE reading", NULL, NULL, NULL);
}

mt_status mt_database_integer(struct mt_database *database, const char *sql, int64_t *out)
{
    struct mt_statement *statement;
    bool row = false;
    *out = 0;
    mt_status status = mt_database_prepare(database, sql, &statement);
    if (status != MT_OK)
        return status;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row)
        *out = mt_statement_integer(statement, 0);
    mt_statement_finalize(statement);
    return status;
}
