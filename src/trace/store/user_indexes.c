#include "trace/store/user_indexes.h"

#include "base/memory.h"
#include "base/text.h"
#include "trace/store/connection.h"
#include "trace/store/schema_check.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct user_index {
    char *name, *table;
    int64_t root; /* the page of the file where its tree begins */
    bool is_compared;
};

struct user_indexes {
    struct user_index *items;
    size_t count;
};

static mt_status find(struct mt_database *database, struct user_indexes *out)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, database,
                 "SELECT name, tbl_name, rootpage, sql FROM main.sqlite_schema WHERE type = 'index' AND rootpage > ?1",
                 MT_BIND_INTEGER(0)) {
        const char *name = mt_statement_text(row, 0), *table = mt_statement_text(row, 1);
        if (name != NULL && table != NULL && !mt_schema_has_index(name, mt_statement_text(row, 3)))
            *MT_HOST_ADD(out->items, out->count) = (struct user_index){
                .name = mt_host_strdup(name), .table = mt_host_strdup(table), .root = mt_statement_integer(row, 2)};
    }
    return status;
}

static void destroy(void *context)
{
    struct user_indexes *indexes = context;
    for (size_t i = 0; i < indexes->count; i++) {
        free(indexes->items[i].name);
        free(indexes->items[i].table);
    }
    free(indexes->items);
    free(indexes);
}

/* Makes SQLite compare the indexes of a table with it. */
static mt_status compare(struct user_index *index, struct mt_database *database)
{
    mt_status status = MT_OK;
    index->is_compared = true;
    MT_EACH_ROW (row, status, database, "SELECT integrity_check FROM pragma_integrity_check(?1) LIMIT 1",
                 MT_BIND_TEXT(index->table)) {
        const char *found = mt_statement_text(row, 0);
        if (found == NULL || strcmp(found, "ok") != 0)
            status = mt_fail(MT_BAD_TRACE,
                             "%s has an index \"%s\", added by another program, that is not what its table says (%s): "
                             "drop it or rebuild it (REINDEX)",
                             mt_database_path(database), index->name, found != NULL ? found : "NULL");
    }
    index->is_compared = status == MT_OK;
    return status;
}

static mt_status compare_all(struct user_indexes *indexes, struct mt_database *database)
{
    for (size_t i = 0; i < indexes->count; i++)
        MT_TRY(compare(&indexes->items[i], database));
    return MT_OK;
}

static bool is_text(sqlite3_stmt *row, int column, const char *text)
{
    const unsigned char *value = sqlite3_column_text(row, column);
    return value != NULL && strcmp((const char *)value, text) == 0;
}

enum { OPCODE = 1, ROOT = 3, FILE_NUMBER = 4, MAIN_FILE = 0 }; /* columns of EXPLAIN */

/* Compares the index whose tree an instruction of SQLite opens for reading, if the instruction opens one. */
static mt_status check_instruction(struct user_indexes *indexes, struct mt_database *database, sqlite3_stmt *row)
{
    const bool is_opening = is_text(row, OPCODE, "OpenRead") || is_text(row, OPCODE, "ReopenIdx");
    if (!is_opening || sqlite3_column_int(row, FILE_NUMBER) != MAIN_FILE)
        return MT_OK;
    for (size_t i = 0; i < indexes->count; i++)
        if (indexes->items[i].root == sqlite3_column_int64(row, ROOT) && !indexes->items[i].is_compared)
            return compare(&indexes->items[i], database);
    return MT_OK;
}

/* Compares the indexes through which the statement reads. A statement that can't be explained fails when it is
 * prepared. */
static mt_status check(void *context, struct mt_database *database, const char *sql)
{
    struct user_indexes *indexes = context;
    struct mt_text explain = {0};
    sqlite3_stmt *rows = NULL;
    mt_status status = MT_OK;
    if (sql == NULL)
        return compare_all(indexes, database);
    mt_text_add(&explain, "EXPLAIN %s", sql);
    sqlite3_prepare_v2(mt_database_handle(database), mt_text_get(&explain), -1, &rows, NULL);
    while (status == MT_OK && rows != NULL && sqlite3_step(rows) == SQLITE_ROW)
        status = check_instruction(indexes, database, rows);
    sqlite3_finalize(rows);
    mt_text_release(&explain);
    return status;
}

mt_status mt_user_indexes_distrust(struct mt_database *database)
{
    struct user_indexes *indexes = mt_host_alloc(sizeof *indexes);
    mt_status status = find(database, indexes);
    if (status == MT_OK && indexes->count > 0)
        mt_database_set_guard(database, (struct mt_statement_guard){indexes, check, destroy});
    else
        destroy(indexes);
    return status;
}
