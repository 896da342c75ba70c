#include "trace/store/batch.h"

#include "base/memory.h"
#include "base/text.h"

#include <sqlite3.h>
#include <stdlib.h>

/* Invariant: count < table->capacity, except between the filling of a row and the storing of the rows. */
struct mt_batch {
    const struct mt_batch_table *table;
    sqlite3_module module;
    struct mt_database *database;
    struct mt_statement *insert;
    size_t count;
    unsigned char *rows;
};

struct virtual_table {
    sqlite3_vtab base;
    const struct mt_batch *batch;
};

/* Over the rows that were there when it was opened. */
struct cursor {
    sqlite3_vtab_cursor base;
    size_t row_bytes;
    const unsigned char *row, *end;
};

static int connect_table(sqlite3 *handle, void *batch, int argument_count, const char *const *arguments,
                         sqlite3_vtab **out, char **error)
{
    (void)argument_count;
    (void)arguments;
    (void)error;
    struct virtual_table *table = mt_host_alloc(sizeof *table);
    struct mt_text declaration = {0};
    table->batch = batch;
    *out = &table->base;
    mt_text_add(&declaration, "CREATE TABLE batch (%s)", table->batch->table->columns);
    int code = sqlite3_declare_vtab(handle, declaration.data);
    mt_text_release(&declaration);
    return code;
}

static int disconnect_table(sqlite3_vtab *table)
{
    free(table);
    return SQLITE_OK;
}

static int choose_plan(sqlite3_vtab *table, sqlite3_index_info *info)
{
    info->estimatedCost = (double)((struct virtual_table *)table)->batch->table->capacity;
    return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    struct cursor *cursor = mt_host_alloc(sizeof *cursor);
    *out = &cursor->base;
    return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *cursor)
{
    free(cursor);
    return SQLITE_OK;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int plan, const char *plan_text, int count, sqlite3_value **values)
{
    (void)plan;
    (void)plan_text;
    (void)count;
    (void)values;
    struct cursor *cursor = (struct cursor *)base;
    const struct mt_batch *batch = ((struct virtual_table *)base->pVtab)->batch;
    cursor->row_bytes = batch->table->row_bytes;
    cursor->row = batch->rows;
    cursor->end = batch->rows + batch->count * batch->table->row_bytes;
    return SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    cursor->row += cursor->row_bytes;
    return SQLITE_OK;
}

static int cursor_at_end(sqlite3_vtab_cursor *base)
{
    const struct cursor *cursor = (struct cursor *)base;
    return cursor->row >= cursor->end;
}

const void *mt_batch_row(const struct sqlite3_vtab_cursor *cursor)
{
    return ((const struct cursor *)cursor)->row;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    const struct cursor *cursor = (struct cursor *)base;
    *out = cursor->end - cursor->row;
    return SQLITE_OK;
}

/* What all have in common; xColumn is the table's. */
static const sqlite3_module COMMON_MODULE = {
    .xConnect = connect_table,
    .xBestIndex = choose_plan,
    .xDisconnect = disconnect_table,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_at_end,
    .xRowid = cursor_rowid,
};

mt_status mt_batch_create(struct mt_database *database, const struct mt_batch_table *table, struct mt_batch **out)
{
    struct mt_batch *batch = mt_host_alloc(sizeof *batch);
    mt_status status = MT_OK;
    batch->table = table;
    batch->module = COMMON_MODULE;
    batch->module.xColumn = table->column;
    batch->database = database;
    batch->rows = mt_host_alloc(table->capacity * table->row_bytes);
    if (sqlite3_create_module(mt_database_handle(database), table->name, &batch->module, batch) != SQLITE_OK)
        status = mt_fail(MT_FAILED, "%s", sqlite3_errmsg(mt_database_handle(database)));
    if (status == MT_OK)
        status = mt_database_prepare(database, table->insert, &batch->insert);
    *out = batch;
    return status;
}

void *mt_batch_add(struct mt_batch *batch)
{
    return batch->rows + batch->count++ * batch->table->row_bytes;
}

bool mt_batch_is_full(const struct mt_batch *batch)
{
    return batch->count == batch->table->capacity;
}

mt_status mt_batch_store(struct mt_batch *batch)
{
    if (batch->count == 0)
        return MT_OK;
    if (batch->table->compare != NULL)
        qsort(batch->rows, batch->count, batch->table->row_bytes, batch->table->compare);
    mt_status status = mt_statement_run(batch->insert);
    batch->count = 0;
    return status;
}

void mt_batch_destroy(struct mt_batch *batch)
{
    if (batch == NULL)
        return;
    sqlite3 *handle = mt_database_handle(batch->database);
    mt_statement_finalize(batch->insert);
    sqlite3_create_module(handle, batch->table->name, NULL, NULL);
    /* SQLite calls the module once more, to let go of its table, and not before it prepares another statement. */
    sqlite3_exec(handle, "SELECT 1", NULL, NULL, NULL);
    free(batch->rows);
    free(batch);
}
