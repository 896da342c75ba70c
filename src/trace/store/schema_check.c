#include "trace/store/schema_check.h"

#include "base/memory.h"
#include "mt_schema_sql.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>

/* The columns of all tables except virtual ones, which have no page. Tables and columns are ordered by the bytes of
 * their names. */
#define COLUMNS                                                                                                        \
    "SELECT tables.name, columns.name, columns.type, columns.\"notnull\", columns.pk, columns.hidden"                  \
    " FROM main.sqlite_schema AS tables, pragma_table_xinfo(tables.name, 'main') AS columns"                           \
    " WHERE tables.type = 'table' AND tables.rootpage > ?1 ORDER BY tables.name, columns.name"

enum { TABLE, NAME, TYPE, NOT_NULL, KEY, HIDDEN };

/* An index as its file has it in sqlite_schema. */
struct own_index {
    const char *name, *sql;
};

/* The columns and the indexes of a trace, read once from an empty one. */
static struct {
    struct mt_schema_column *columns;
    struct own_index *indexes;
    size_t count, index_count;
    mt_status status;
} own;

static mt_status read_own(struct mt_database *database)
{
    mt_status status = mt_database_execute(database, mt_schema_sql);
    MT_EACH_ROW (row, status, database, COLUMNS, MT_BIND_INTEGER(0))
        *MT_HOST_ADD(own.columns, own.count) =
            (struct mt_schema_column){.table = mt_host_strdup(mt_statement_text(row, TABLE)),
                                      .name = mt_host_strdup(mt_statement_text(row, NAME)),
                                      .type = mt_host_strdup(mt_statement_text(row, TYPE)),
                                      .is_not_null = mt_statement_integer(row, NOT_NULL) != 0,
                                      .key = (int)mt_statement_integer(row, KEY)};
    MT_EACH_ROW (row, status, database, "SELECT name, sql FROM main.sqlite_schema WHERE type = ?1",
                 MT_BIND_TEXT("index"))
        *MT_HOST_ADD(own.indexes, own.index_count) = (struct own_index){
            .name = mt_host_strdup(mt_statement_text(row, 0)), .sql = mt_host_strdup(mt_statement_text(row, 1))};
    return status;
}

static void make_own(void)
{
    struct mt_database *empty;
    own.status = mt_database_connect("an empty trace", MT_ACCESS_PRIVATE, &empty);
    if (own.status == MT_OK)
        own.status = read_own(empty);
    mt_database_close(empty);
}

static mt_status read_own_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_own);
    return own.status;
}

bool mt_schema_has_index(const char *name, const char *sql)
{
    if (sql == NULL || read_own_once() != MT_OK)
        return false;
    for (size_t i = 0; i < own.index_count; i++)
        if (strcmp(own.indexes[i].name, name) == 0)
            return strcmp(own.indexes[i].sql, sql) == 0;
    return false;
}

static mt_status fail_damaged(struct mt_database *database, const struct mt_schema_column *column, const char *what)
{
    return mt_fail(MT_BAD_TRACE, "%s is damaged (%s %s.%s)", mt_database_path(database), what, column->table,
                   column->name);
}

static int compare(const struct mt_schema_column *column, const struct mt_statement *row)
{
    const int order = strcmp(column->table, mt_statement_text(row, TABLE));
    return order != 0 ? order : strcmp(column->name, mt_statement_text(row, NAME));
}

/* Compares a column with the file's column. */
static mt_status check_column(struct mt_database *database, const struct mt_schema_column *column,
                              const struct mt_statement *row, mt_schema_need need)
{
    const bool has_type = strcasecmp(mt_statement_text(row, TYPE), column->type) == 0;
    const bool has_key = mt_statement_integer(row, KEY) == column->key;
    const bool has_null = (mt_statement_integer(row, NOT_NULL) != 0) == column->is_not_null;
    if (mt_statement_integer(row, HIDDEN) != 0)
        return fail_damaged(database, column, "it computes");
    if (need == MT_SCHEMA_SAME && !has_type)
        return fail_damaged(database, column, "it has another type in");
    if (need == MT_SCHEMA_SAME && (!has_key || !has_null))
        return fail_damaged(database, column, "it has another key or NULL in");
    return MT_OK;
}

/* Checks the row's column, and the columns before it, which the file lacks; `row` NULL: all remaining columns. */
static mt_status check_up_to(struct mt_database *database, int64_t format, mt_schema_needs needs,
                             const struct mt_statement *row, size_t *next)
{
    for (; *next < own.count; ++*next) {
        const struct mt_schema_column *column = &own.columns[*next];
        const int order = row != NULL ? compare(column, row) : -1;
        const mt_schema_need need = needs(column, format);
        if (order > 0)
            return MT_OK;
        if (order == 0) {
            ++*next;
            return need != MT_SCHEMA_ABSENT ? check_column(database, column, row, need) : MT_OK;
        }
        if (need != MT_SCHEMA_ABSENT)
            return fail_damaged(database, column, "it has no");
    }
    return MT_OK;
}

static mt_status check_no_trigger(struct mt_database *database)
{
    int64_t count;
    MT_TRY(mt_database_integer(database, "SELECT count(*) FROM main.sqlite_schema WHERE type = 'trigger'", &count));
    return count == 0 ? MT_OK
                      : mt_fail(MT_BAD_TRACE, "%s has a trigger, which would change stored rows: no trace has one",
                                mt_database_path(database));
}

mt_status mt_schema_check(struct mt_database *database, int64_t format, mt_schema_needs needs)
{
    size_t next = 0;
    MT_TRY(read_own_once());
    mt_status status = check_no_trigger(database);
    MT_EACH_ROW (row, status, database, COLUMNS, MT_BIND_INTEGER(0))
        status = check_up_to(database, format, needs, row, &next);
    return status == MT_OK ? check_up_to(database, format, needs, NULL, &next) : status;
}
