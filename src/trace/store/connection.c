#include "trace/store/connection.h"

#include "base/memory.h"
#include "base/text.h"
#include "trace/store/bounds.h"
#include "trace/store/page_file.h"

#include <assert.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BUSY_WAIT_MS = 5000 };

struct mt_database {
    sqlite3 *handle;
    char *path;
    struct mt_bounds bounds;
    struct mt_statement_guard guard; /* `check` NULL: there is none */
};

struct mt_statement {
    sqlite3_stmt *handle;
    struct mt_database *database;
    mt_status of_error; /* status of an invalid statement: MT_USAGE if a user wrote it, otherwise MT_BAD_TRACE */
    int bind_result;    /* SQLite's code for the first failed bind, until the next step reports it */
    struct mt_taken work;
};

static void *take_memory(int bytes)
{
    return mt_host_resize(NULL, (size_t)bytes, 1);
}

static void *resize_memory(void *memory, int bytes)
{
    return mt_host_resize(memory, (size_t)bytes, 1);
}

static int size_of_memory(void *memory)
{
    return memory != NULL ? (int)malloc_usable_size(memory) : 0;
}

static int round_up(int bytes)
{
    return (bytes + 7) & ~7;
}

static int begin_memory(void *unused)
{
    (void)unused;
    return SQLITE_OK;
}

static void end_memory(void *unused)
{
    (void)unused;
}

void mt_database_end_without_memory(void)
{
    static sqlite3_mem_methods memory = {take_memory, free,         resize_memory, size_of_memory,
                                         round_up,    begin_memory, end_memory,    NULL};
    sqlite3_config(SQLITE_CONFIG_MALLOC, &memory);
    mt_bounds_count_memory();
}

/* Returns the text for a code that reports a damaged file; NULL for any other. */
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

static bool is_success(int code)
{
    return code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW;
}

/* Returns the system's reason for a failure to read or write. SQLite has none if only a part was written, as at
 * the limit of a file's size. */
static const char *system_error(const struct mt_database *database)
{
    struct rlimit limit;
    const int error = sqlite3_system_errno(database->handle);
    if (error != 0)
        return strerror(error);
    const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return is_limited ? "files may not grow larger (ulimit -f)" : "the system gives no reason";
}

/* Fails for SQLite's code. Uses the message of the connection's last call. */
static mt_status fail(const struct mt_database *database, int code)
{
    assert(!is_success(code));
    if (code == SQLITE_CORRUPT && mt_page_file_damage(database->handle) != 0)
        return mt_fail(MT_BAD_TRACE, "%s is damaged: the checksum of page %lld does not match", database->path,
                       (long long)mt_page_file_damage(database->handle));
    if (damage_text(code) != NULL)
        return mt_fail(MT_BAD_TRACE, "%s %s", database->path, damage_text(code));
    const char *text = sqlite3_errmsg(database->handle);
    if ((code & 0xFF) == SQLITE_ERROR)
        return mt_fail(MT_BAD_TRACE, "%s is damaged (%s)", database->path, text);
    if ((code & 0xFF) == SQLITE_NOMEM)
        return mt_fail(MT_NO_HOST_MEMORY, "%s: out of host memory", database->path);
    if (code == SQLITE_INTERRUPT)
        return mt_fail(MT_BAD_TRACE, "%s %s", database->path, database->bounds.text);
    if ((code & 0xFF) == SQLITE_FULL)
        return mt_fail(MT_FAILED, "%s: no space left on the disk", database->path);
    if ((code & 0xFF) == SQLITE_IOERR)
        return mt_fail(MT_FAILED, "%s: reading or writing failed (%s, code %d: %s)", database->path, text, code,
                       system_error(database));
    return mt_fail(MT_FAILED, "%s: %s", database->path, text);
}

static mt_status check(const struct mt_database *database, int code)
{
    return is_success(code) ? MT_OK : fail(database, code);
}

static mt_status fail_to_open(const struct mt_database *database)
{
    int error = sqlite3_system_errno(database->handle);
    const char *reason = error != 0 ? strerror(error) : sqlite3_errmsg(database->handle);
    return mt_fail(MT_FAILED, "can't open %s: %s", database->path, reason);
}

/* Returns the path in a form that SQLite always treats as a path: it gives ":memory:" and "file:…" another meaning. */
static char *plain_name(const char *path)
{
    struct mt_text name = {0};
    mt_text_add(&name, "%s%s", path[0] == '/' ? "" : "./", path);
    return name.data;
}

/* Returns the path as the URI of a file that never changes. SQLite then creates no files next to it, even if its header
 * says that it has a write-ahead log. */
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

mt_status mt_database_connect(const char *path, mt_access access, struct mt_database **out)
{
    static const int flags[] = {[MT_ACCESS_READ] = SQLITE_OPEN_READONLY,
                                [MT_ACCESS_READ_UNCHANGING] = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                                [MT_ACCESS_WRITE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                [MT_ACCESS_PRIVATE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY};
    struct mt_database *database = mt_host_alloc(sizeof *database);
    char *name = access == MT_ACCESS_READ_UNCHANGING ? unchanging_name(path) : plain_name(path);
    database->path = mt_host_strdup(path);
    *out = database;
    int code = sqlite3_open_v2(name, &database->handle, flags[access] | SQLITE_OPEN_NOMUTEX, mt_page_vfs());
    free(name);
    if (code != SQLITE_OK)
        return fail_to_open(database);
    sqlite3_extended_result_codes(database->handle, 1);
    if (access != MT_ACCESS_PRIVATE)
        mt_bounds_set(&database->bounds, database->handle);
    sqlite3_busy_timeout(database->handle, BUSY_WAIT_MS);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL); /* we have none */
    /* A CHECK constraint may compute anything. We have none. */
    return mt_database_execute(database, "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
                                         "PRAGMA ignore_check_constraints = ON");
}

void mt_database_close(struct mt_database *database)
{
    if (database == NULL)
        return;
    assert(database->handle == NULL || sqlite3_next_stmt(database->handle, NULL) == NULL);
    sqlite3_close_v2(database->handle);
    if (database->guard.destroy != NULL)
        database->guard.destroy(database->guard.context);
    free(database->path);
    free(database);
}

mt_status mt_database_close_as_one_file(struct mt_database *database)
{
    /* If a reader prevents this, it fails at once, and not after the busy timeout. */
    sqlite3_busy_timeout(database->handle, 0);
    int code = sqlite3_exec(database->handle, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    mt_status status = code == SQLITE_BUSY || code == SQLITE_LOCKED ? MT_OK : check(database, code);
    mt_database_close(database);
    return status;
}

void mt_database_set_guard(struct mt_database *database, struct mt_statement_guard guard)
{
    assert(database->guard.check == NULL);
    database->guard = guard;
}

mt_status mt_database_guard(struct mt_database *database, const char *sql)
{
    const struct mt_statement_guard *guard = &database->guard;
    return guard->check != NULL ? guard->check(guard->context, database, sql) : MT_OK;
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
    struct mt_taken work = {0}, *outer = mt_bounds_begin(&database->bounds, &work);
    int code = sqlite3_exec(database->handle, sql, NULL, NULL, NULL);
    mt_bounds_end(&database->bounds, outer);
    return check(database, code);
}

mt_status mt_database_begin(struct mt_database *database)
{
    assert(sqlite3_get_autocommit(database->handle));
    return mt_database_execute(database, "BEGIN");
}

mt_status mt_database_commit(struct mt_database *database)
{
    assert(!sqlite3_get_autocommit(database->handle));
    return mt_database_execute(database, "COMMIT");
}

void mt_database_rollback(struct mt_database *database)
{
    /* A failure here repeats the one that led here. Its text is set already. */
    if (!sqlite3_get_autocommit(database->handle))
        sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
}

mt_status mt_database_begin_reading(struct mt_database *database)
{
    return mt_database_execute(database, "SAVEPOINT reading");
}

void mt_database_end_reading(struct mt_database *database)
{
    /* Nothing was written, so this can't fail, and the text of an earlier failure stays. A failure to read the file may
     * have ended the transaction already. */
    if (!sqlite3_get_autocommit(database->handle))
        sqlite3_exec(database->handle, "RELEASE reading", NULL, NULL, NULL);
}

mt_status mt_database_integer(struct mt_database *database, const char *sql, int64_t *out)
{
    struct mt_statement *statement;
    mt_status status = mt_database_prepare(database, sql, &statement);
    *out = mt_statement_next(statement, &status) ? mt_statement_integer(statement, 0) : 0;
    mt_statement_finalize(statement);
    return status;
}

/* True if only space, comments and semicolons are left. */
static bool is_blank(struct mt_database *database, const char *sql)
{
    sqlite3_stmt *handle = NULL;
    while (*sql != '\0' && handle == NULL)
        if (sqlite3_prepare_v2(database->handle, sql, -1, &handle, &sql) != SQLITE_OK)
            return false;
    sqlite3_finalize(handle);
    return handle == NULL;
}

/* True if the code reports an invalid statement. */
static bool is_senseless(int code)
{
    return (code & 0xFF) == SQLITE_ERROR || (code & 0xFF) == SQLITE_TOOBIG || (code & 0xFF) == SQLITE_MISMATCH;
}

static mt_status prepare(struct mt_database *database, const char *sql, mt_status of_error, struct mt_statement **out)
{
    sqlite3_stmt *handle;
    const char *rest;
    assert(of_error == MT_USAGE || of_error == MT_BAD_TRACE);
    *out = NULL;
    if (of_error == MT_BAD_TRACE)
        MT_TRY(mt_database_guard(database, sql));
    struct mt_taken work = {0}, *outer = mt_bounds_begin(&database->bounds, &work); /* it may read the schema */
    int code = sqlite3_prepare_v3(database->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &handle, &rest);
    mt_bounds_end(&database->bounds, outer);
    if (is_senseless(code) && of_error == MT_USAGE)
        return mt_fail(MT_USAGE, "%s", sqlite3_errmsg(database->handle));
    if (code != SQLITE_OK)
        return fail(database, code);
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

mt_status mt_database_prepare_insert(struct mt_database *database, const char *table, const char *columns,
                                     struct mt_statement **out)
{
    struct mt_text sql = {0};
    mt_text_add(&sql, "INSERT OR REPLACE INTO %s (%s) VALUES (?", table, columns);
    for (const char *comma = strchr(columns, ','); comma != NULL; comma = strchr(comma + 1, ','))
        mt_text_add(&sql, ", ?");
    mt_text_add(&sql, ")");
    mt_status status = mt_database_prepare(database, sql.data, out);
    mt_text_release(&sql);
    return status;
}

/* SQLite does not allow binding while a statement has a current row. */
static __attribute__((unused)) bool can_bind(const struct mt_statement *statement, int index)
{
    return !sqlite3_stmt_busy(statement->handle) && index >= 1 &&
           index <= sqlite3_bind_parameter_count(statement->handle);
}

/* Binds a value. Returns SQLite's code. */
static int bind(sqlite3_stmt *handle, int index, const struct mt_bound *value)
{
    switch (value->kind) {
    case MT_BOUND_INTEGER:
        return sqlite3_bind_int64(handle, index, value->integer);
    case MT_BOUND_REAL:
        return sqlite3_bind_double(handle, index, value->real);
    case MT_BOUND_TEXT:
        return sqlite3_bind_text(handle, index, value->data, -1, SQLITE_TRANSIENT);
    case MT_BOUND_BLOB: /* an empty one may have no data, which would be NULL */
        return value->bytes == 0 ? sqlite3_bind_zeroblob(handle, index, 0)
                                 : sqlite3_bind_blob64(handle, index, value->data, value->bytes, SQLITE_TRANSIENT);
    case MT_BOUND_POINTER:
        return sqlite3_bind_pointer(handle, index, value->pointer, MT_POINTER_TYPE, NULL);
    case MT_BOUND_NULL:
        break;
    }
    return sqlite3_bind_null(handle, index);
}

void mt_statement_bind(struct mt_statement *statement, int index, struct mt_bound value)
{
    if (statement == NULL)
        return;
    assert(can_bind(statement, index));
    int code = bind(statement->handle, index, &value);
    if (statement->bind_result == SQLITE_OK)
        statement->bind_result = code;
}

void mt_statement_bind_integers(struct mt_statement *statement, int index, const int64_t *values, int count)
{
    for (int i = 0; i < count; i++)
        mt_statement_bind_integer(statement, index + i, values[i]);
}

/* Steps a statement within its bounds. A user's statement has none. Returns SQLite's code. */
static int step(struct mt_statement *statement)
{
    struct mt_bounds *bounds = &statement->database->bounds;
    if (!sqlite3_stmt_busy(statement->handle))
        statement->work = (struct mt_taken){0};
    struct mt_taken *outer = mt_bounds_begin(bounds, statement->of_error == MT_USAGE ? NULL : &statement->work);
    int code = sqlite3_step(statement->handle);
    statement->work.rows += code == SQLITE_ROW;
    mt_bounds_end(bounds, outer);
    return code;
}

mt_status mt_statement_step(struct mt_statement *statement, bool *out_row)
{
    *out_row = false;
    int code = statement->bind_result;
    statement->bind_result = SQLITE_OK;
    if (code == SQLITE_OK)
        code = step(statement);
    if (code == SQLITE_ROW) {
        *out_row = true;
        return MT_OK;
    }
    /* The message belongs to the connection's last call, so it is copied before the reset. */
    mt_status status = is_senseless(code) && statement->of_error == MT_USAGE
                           ? mt_fail(MT_USAGE, "%s", sqlite3_errmsg(statement->database->handle))
                           : check(statement->database, code);
    sqlite3_reset(statement->handle);
    return status;
}

bool mt_statement_next(struct mt_statement *statement, mt_status *status)
{
    bool row = false;
    assert(*status != MT_OK || statement != NULL);
    if (*status == MT_OK)
        *status = mt_statement_step(statement, &row);
    return row;
}

mt_status mt_statement_run(struct mt_statement *statement)
{
    mt_status status = MT_OK;
    if (mt_statement_next(statement, &status))
        sqlite3_reset(statement->handle);
    assert(!sqlite3_stmt_busy(statement->handle));
    return status;
}

mt_status mt_statement_run_with(struct mt_statement *statement, int index, const struct mt_bound *values, int count)
{
    for (int i = 0; i < count; i++)
        mt_statement_bind(statement, index + i, values[i]);
    return mt_statement_run(statement);
}

struct mt_statement *mt_statement_begin(struct mt_database *database, const char *sql, const struct mt_bound *values,
                                        int count, mt_status *status)
{
    struct mt_statement *statement = NULL;
    if (*status == MT_OK)
        *status = mt_database_prepare(database, sql, &statement);
    for (int i = 0; i < count; i++)
        mt_statement_bind(statement, i + 1, values[i]);
    return statement;
}

bool mt_statement_advance(struct mt_statement *statement, mt_status *status)
{
    bool row = mt_statement_next(statement, status);
    if (!row)
        mt_statement_finalize(statement);
    return row;
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

static __attribute__((unused)) bool has_column(const struct mt_statement *statement, int column)
{
    return column >= 0 && column < sqlite3_column_count(statement->handle);
}

int64_t mt_statement_integer(const struct mt_statement *statement, int column)
{
    assert(has_column(statement, column));
    return sqlite3_column_int64(statement->handle, column);
}

double mt_statement_real(const struct mt_statement *statement, int column)
{
    assert(has_column(statement, column));
    return sqlite3_column_double(statement->handle, column);
}

const char *mt_statement_text(const struct mt_statement *statement, int column)
{
    assert(has_column(statement, column));
    return (const char *)sqlite3_column_text(statement->handle, column);
}

const void *mt_statement_blob(const struct mt_statement *statement, int column, size_t *out_bytes)
{
    assert(has_column(statement, column));
    const void *data = sqlite3_column_blob(statement->handle, column);
    *out_bytes = (size_t)sqlite3_column_bytes(statement->handle, column);
    return data;
}

bool mt_statement_is_null(const struct mt_statement *statement, int column)
{
    return mt_statement_column_type(statement, column) == SQLITE_NULL;
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

int mt_statement_column_type(const struct mt_statement *statement, int column)
{
    assert(has_column(statement, column));
    return sqlite3_column_type(statement->handle, column);
}

bool mt_statement_is_read_only(const struct mt_statement *statement)
{
    return sqlite3_stmt_readonly(statement->handle) != 0;
}
