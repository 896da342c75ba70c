#include "producers/file/nsys_tables.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_TABLE "NVTX_EVENTS"
#define KERNEL_TABLE "CUPTI_ACTIVITY_KIND_KERNEL"
#define STRING_TABLE "StringIds"

/* Nsight's numbers of processes are multiples of this. Numbers of their threads are in between. */
#define PROCESS_UNIT INT64_C(0x1000000)

/* Sets *out to true if the query has a row. `column` may be NULL: no parameter. */
static mt_status has_row(const struct mt_nsys_tables *tables, const char *sql, const char *table, const char *column,
                         bool *out)
{
    struct mt_statement *statement;
    *out = false;
    MT_TRY(mt_database_prepare(tables->database, sql, &statement));
    mt_statement_bind_text(statement, 1, table);
    if (column != NULL)
        mt_statement_bind_text(statement, 2, column);
    mt_status status = mt_statement_step(statement, out);
    mt_statement_finalize(statement);
    return status;
}

/* Sets *out to true if a table of that name has that column ("": any). Views do not count. */
static mt_status has_column(const struct mt_nsys_tables *tables, const char *table, const char *column, bool *out)
{
    return has_row(tables,
                   "SELECT 1 FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c WHERE s.type = 'table' AND"
                   " s.name = ?1 AND s.rootpage > 0 AND (?2 = '' OR c.name = ?2)",
                   table, column, out);
}

/* Fails if the table has computed columns, since reading one may take unlimited time for every row. */
static mt_status check_computed(const struct mt_nsys_tables *tables, const char *table)
{
    bool is_computed;
    mt_status status =
        has_row(tables, "SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden IN (2, 3)", table, NULL, &is_computed);
    if (status != MT_OK || !is_computed)
        return status;
    return mt_fail(MT_BAD_TRACE, "its table %s has computed columns, which Nsight Systems never writes", table);
}

/* Fails if SQLite finds damage. A page that is used twice turns few rows into many and short texts into long ones, so
 * only an intact table is read in time proportional to the file. */
static mt_status check_pages(const struct mt_nsys_tables *tables, const char *table)
{
    struct mt_statement *statement = NULL;
    struct mt_text sql = {0};
    bool row;
    mt_text_add(&sql, "PRAGMA quick_check(%s)", table);
    mt_status status = mt_database_prepare(tables->database, mt_text_get(&sql), &statement);
    MT_THEN(status, mt_statement_step(statement, &row));
    const char *said = status == MT_OK && row ? mt_statement_text(statement, 0) : NULL;
    if (status == MT_OK && (said == NULL || strcmp(said, "ok") != 0))
        status = mt_fail(MT_BAD_TRACE, "its table %s is damaged (%s)", table,
                         said != NULL ? said : "nothing is known of it");
    mt_statement_finalize(statement);
    mt_text_release(&sql);
    return status;
}

/* An absent table is intact. */
static mt_status check_table(const struct mt_nsys_tables *tables, const char *table)
{
    bool is_there;
    mt_status status = has_column(tables, table, "", &is_there);
    if (status == MT_OK && is_there)
        status = check_computed(tables, table);
    return status == MT_OK && is_there ? check_pages(tables, table) : status;
}

/* Fails if a column is missing that every event needs. */
static mt_status check_columns(struct mt_nsys_tables *tables)
{
    static const char *const needed[] = {"start", "address", "bytes"};
    bool is_there = true;
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0] && status == MT_OK; i++) {
        status = has_column(tables, MT_NSYS_MEMORY_TABLE, needed[i], &is_there);
        if (status == MT_OK && !is_there)
            status = mt_fail(MT_BAD_TRACE,
                             "its table " MT_NSYS_MEMORY_TABLE " has no column %s, which every version of nsys "
                             "export writes",
                             needed[i]);
    }
    MT_THEN(status, has_column(tables, MT_NSYS_MEMORY_TABLE, "deviceId", &tables->knows_device));
    MT_THEN(status, has_column(tables, MT_NSYS_MEMORY_TABLE, "globalPid", &tables->knows_process));
    return status;
}

static mt_status check_tables(struct mt_nsys_tables *tables)
{
    static const char *const names[] = {MT_NSYS_MEMORY_TABLE, RANGE_TABLE, KERNEL_TABLE, STRING_TABLE};
    bool is_there;
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && status == MT_OK; i++)
        status = check_table(tables, names[i]);
    MT_THEN(status, has_column(tables, MT_NSYS_MEMORY_TABLE, "memoryOperationType", &is_there));
    if (status != MT_OK)
        return status;
    if (is_there)
        return check_columns(tables);
    int64_t application = 0;
    if (mt_database_integer(tables->database, "PRAGMA application_id", &application) == MT_OK &&
        application == MT_TRACE_APPLICATION_ID)
        return mt_fail(MT_BAD_TRACE, "it is already a trace: memtrace runs lists its runs");
    return mt_fail(MT_BAD_TRACE, "it is a database without the table " MT_NSYS_MEMORY_TABLE
                                 ": nsys profile --cuda-memory-usage=true records it, nsys export --type sqlite "
                                 "writes it");
}

/* A SQL query under construction, from the columns that exist. Keeps the first failure; later additions do
 * nothing. */
struct query {
    const struct mt_nsys_tables *tables;
    struct mt_text sql;
    mt_status status;
};

static bool has(struct query *query, const char *table, const char *column)
{
    bool is_there = false;
    if (query->status == MT_OK)
        query->status = has_column(query->tables, table, column, &is_there);
    return is_there;
}

/* Adds the column's name, or `otherwise` if there is no such column. */
static void add_column(struct query *query, const char *table, const char *column, const char *otherwise)
{
    mt_text_add(&query->sql, "%s", has(query, table, column) ? column : otherwise);
}

/* Adds the condition that a row of the memory table is about device memory. */
static void add_about_device(struct query *query)
{
    mt_text_add(&query->sql, " memoryOperationType IN (0, 1) AND ");
    add_column(query, MT_NSYS_MEMORY_TABLE, "memKind", "2");
    mt_text_add(&query->sql, " NOT IN (0, 1)");
}

/* Adds the condition that a row belongs to the process and the device, if this table and the memory table have these
 * columns. A thread's number is in the range of its process. */
static void add_owner(struct query *query, const char *table)
{
    const struct mt_nsys_tables *tables = query->tables;
    const struct {
        const char *column;
        int64_t unit, value;
        bool is_known;
    } owners[] = {{"deviceId", 1, tables->device, tables->knows_device},
                  {"globalPid", PROCESS_UNIT, tables->process, tables->knows_process},
                  {"globalTid", PROCESS_UNIT, tables->process, tables->knows_process}};
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++)
        if (has(query, table, owners[i].column) && owners[i].is_known)
            mt_text_add(&query->sql, " AND %s / %" PRId64 " = %" PRId64, owners[i].column, owners[i].unit,
                        owners[i].value / owners[i].unit);
}

/* Prepares a statement from the SQL, and frees the SQL. */
static mt_status prepare(struct query *query, struct mt_statement **out)
{
    *out = NULL;
    if (query->status == MT_OK)
        query->status = mt_database_prepare(query->tables->database, mt_text_get(&query->sql), out);
    mt_text_release(&query->sql);
    return query->status;
}

static mt_status choose_process(struct mt_nsys_tables *tables, int64_t device)
{
    struct query query = {.tables = tables};
    struct mt_statement *statement;
    bool row = false;
    mt_text_add(&query.sql, "SELECT ");
    add_column(&query, MT_NSYS_MEMORY_TABLE, "deviceId", "0");
    mt_text_add(&query.sql, " AS device, ");
    add_column(&query, MT_NSYS_MEMORY_TABLE, "globalPid", "0");
    mt_text_add(&query.sql,
                " AS process, min(start) FROM " MT_NSYS_MEMORY_TABLE " WHERE memoryOperationType = 0 AND (%" PRId64
                " < 0 OR device = %" PRId64 ") AND",
                device, device);
    add_about_device(&query);
    mt_text_add(&query.sql, " GROUP BY 1, 2 ORDER BY count(*) DESC LIMIT 1");
    mt_status status = prepare(&query, &statement);
    MT_THEN(status, mt_statement_step(statement, &row));
    if (status == MT_OK && !row)
        status = mt_fail(MT_BAD_TRACE,
                         "it has no allocations of device memory%s: nsys profile records them with "
                         "--cuda-memory-usage=true",
                         device >= 0 ? " on that device" : "");
    if (status == MT_OK) {
        tables->device = mt_statement_integer(statement, 0);
        tables->process = mt_statement_integer(statement, 1);
        tables->start_ns = mt_statement_integer(statement, 2);
    }
    mt_statement_finalize(statement);
    return status;
}

static void add_memory(struct query *query)
{
    mt_text_add(&query->sql, "SELECT start AS time, 2 + (memoryOperationType <> 0) AS what, rowid AS number,"
                             " address AS a, bytes AS b, ");
    add_column(query, MT_NSYS_MEMORY_TABLE, "streamId", "0");
    mt_text_add(&query->sql, " AS c, ");
    add_column(query, MT_NSYS_MEMORY_TABLE, "name", "NULL");
    mt_text_add(&query->sql, " AS text, NULL AS string FROM " MT_NSYS_MEMORY_TABLE " WHERE");
    add_about_device(query);
    add_owner(query, MT_NSYS_MEMORY_TABLE);
}

static void add_range_source(struct query *query)
{
    mt_text_add(&query->sql, " FROM " RANGE_TABLE " WHERE eventType = 59 AND end >= start");
    add_owner(query, RANGE_TABLE);
}

/* Adds two rows for each range. */
static void add_ranges(struct query *query)
{
    mt_text_add(&query->sql, " UNION ALL SELECT start, 0, rowid, ");
    add_column(query, RANGE_TABLE, "globalTid", "0");
    mt_text_add(&query->sql, ", 0, -end, ");
    add_column(query, RANGE_TABLE, "text", "NULL");
    mt_text_add(&query->sql, ", ");
    add_column(query, RANGE_TABLE, "textId", "NULL");
    add_range_source(query);
    mt_text_add(&query->sql, " UNION ALL SELECT end, 1, rowid, 0, 0, -start, NULL, NULL");
    add_range_source(query);
}

mt_status mt_nsys_tables_events(const struct mt_nsys_tables *tables, struct mt_statement **out)
{
    struct query query = {.tables = tables};
    mt_text_add(&query.sql, "SELECT * FROM (");
    add_memory(&query);
    if (has(&query, RANGE_TABLE, "eventType"))
        add_ranges(&query);
    mt_text_add(&query.sql, ") ORDER BY time, what = 1 DESC, what > 1, CASE WHEN what < 2 THEN c END, number");
    return prepare(&query, out);
}

mt_status mt_nsys_tables_kernels(const struct mt_nsys_tables *tables, struct mt_statement **out)
{
    struct query query = {.tables = tables};
    *out = NULL;
    if (!has(&query, KERNEL_TABLE, "demangledName"))
        return query.status;
    mt_text_add(&query.sql, "SELECT start, end, ");
    add_column(&query, KERNEL_TABLE, "streamId", "0");
    mt_text_add(&query.sql, ", demangledName FROM " KERNEL_TABLE " WHERE TRUE");
    add_owner(&query, KERNEL_TABLE);
    mt_text_add(&query.sql, " ORDER BY start, rowid");
    return prepare(&query, out);
}

mt_status mt_nsys_tables_count(const struct mt_nsys_tables *tables, uint64_t *out)
{
    struct query query = {.tables = tables};
    int64_t count = 0;
    mt_text_add(&query.sql, "SELECT count(*) FROM " MT_NSYS_MEMORY_TABLE " WHERE");
    add_about_device(&query);
    if (query.status == MT_OK)
        query.status = mt_database_integer(tables->database, mt_text_get(&query.sql), &count);
    mt_text_release(&query.sql);
    assert(count >= 0);
    *out = (uint64_t)count;
    return query.status;
}

static void add_string(struct mt_nsys_strings *strings, int64_t id, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > strings->capacity - strings->length) {
        strings->capacity = strings->capacity * 2 + bytes;
        strings->texts = mt_host_resize(strings->texts, strings->capacity, 1);
    }
    memcpy(strings->texts + strings->length, text, bytes);
    mt_number_map_put(&strings->places, (uint64_t)id, strings->length);
    strings->length += bytes;
    assert(strings->length <= strings->capacity);
}

static mt_status read_strings(struct mt_nsys_tables *tables)
{
    struct query query = {.tables = tables};
    struct mt_statement *statement;
    bool has_ids = has(&query, STRING_TABLE, "id");
    if (!has(&query, STRING_TABLE, "value") || !has_ids)
        return query.status;
    mt_text_add(&query.sql, "SELECT id, value FROM " STRING_TABLE " WHERE value IS NOT NULL");
    mt_status status = prepare(&query, &statement);
    while (mt_statement_advance(statement, &status))
        add_string(&tables->strings, mt_statement_integer(statement, 0), mt_statement_text(statement, 1));
    return status;
}

const char *mt_nsys_tables_string(const struct mt_nsys_tables *tables, int64_t id)
{
    uint64_t place;
    if (!mt_number_map_get(&tables->strings.places, (uint64_t)id, &place))
        return NULL;
    assert(place < tables->strings.length);
    return tables->strings.texts + place;
}

mt_status mt_nsys_tables_open(const char *path, int64_t device, struct mt_nsys_tables *out)
{
    *out = (struct mt_nsys_tables){0};
    mt_number_map_create(&out->strings.places);
    mt_status status = mt_database_open_foreign(path, &out->database);
    MT_THEN(status, check_tables(out));
    MT_THEN(status, read_strings(out));
    return status == MT_OK ? choose_process(out, device) : status;
}

void mt_nsys_tables_close(struct mt_nsys_tables *tables)
{
    mt_number_map_release(&tables->strings.places);
    free(tables->strings.texts);
    mt_database_close(tables->database);
    *tables = (struct mt_nsys_tables){0};
}
