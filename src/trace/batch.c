#include "trace/batch.h"

#include "base/memory.h"

#include <sqlite3.h>
#include <stdlib.h>

/* The columns of table event after id, which SQLite counts up by itself. */
enum column { TIME, KIND, STREAM, LABEL, SPAN, REQUESTED, BLOCK, SEGMENT, OFFSET, ALLOCATION };

static const char COLUMNS[] = "CREATE TABLE batch (time_ns, kind, stream, label, span, requested_bytes, block_bytes, "
                              "segment, offset, allocation)";

static const char INSERT[] = "INSERT INTO event (time_ns, kind, stream, label, span, requested_bytes, block_bytes, "
                             "segment, offset, allocation) SELECT * FROM mt_batch";

#define ALWAYS (1u << TIME | 1u << KIND | 1u << STREAM)

/* Which columns a kind fills; the others are NULL, which takes no room in the file. */
static const unsigned columns_of_kind[MT_EVENT_KIND_COUNT] = {
    [MT_EVENT_SEGMENT_MAP] = ALWAYS | 1u << BLOCK | 1u << SEGMENT,
    [MT_EVENT_SEGMENT_UNMAP] = ALWAYS | 1u << BLOCK | 1u << SEGMENT,
    [MT_EVENT_ALLOC] = ALWAYS | 1u << LABEL | 1u << SPAN | 1u << REQUESTED | 1u << BLOCK | 1u << SEGMENT | 1u << OFFSET,
    [MT_EVENT_FREE] = ALWAYS | 1u << LABEL | 1u << REQUESTED | 1u << BLOCK | 1u << ALLOCATION,
    [MT_EVENT_OOM] = ALWAYS | 1u << LABEL | 1u << SPAN | 1u << REQUESTED,
    [MT_EVENT_SPAN_BEGIN] = ALWAYS | 1u << SPAN,
    [MT_EVENT_SPAN_END] = ALWAYS | 1u << SPAN,
    [MT_EVENT_STEP_BEGIN] = ALWAYS | 1u << REQUESTED,
    [MT_EVENT_STEP_END] = ALWAYS | 1u << REQUESTED,
    [MT_EVENT_PHASE] = ALWAYS | 1u << REQUESTED,
};

struct batch_table {
    sqlite3_vtab base;
    struct mt_batch *batch;
};

struct batch_cursor {
    sqlite3_vtab_cursor base;
    const struct mt_batch_row *row, *end;
};

static int table_connect(sqlite3 *handle, void *batch, int argument_count, const char *const *arguments,
                         sqlite3_vtab **out, char **error)
{
    (void)argument_count;
    (void)arguments;
    (void)error;
    struct batch_table *table = mt_host_alloc(sizeof *table);
    table->batch = batch;
    *out = &table->base;
    return sqlite3_declare_vtab(handle, COLUMNS);
}

static int table_disconnect(sqlite3_vtab *table)
{
    free(table);
    return SQLITE_OK;
}

static int table_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = MT_BATCH_ROWS;
    return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    struct batch_cursor *cursor = mt_host_alloc(sizeof *cursor);
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
    struct batch_cursor *cursor = (struct batch_cursor *)base;
    const struct mt_batch *batch = ((struct batch_table *)base->pVtab)->batch;
    cursor->row = batch->rows;
    cursor->end = batch->rows + batch->count;
    return SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
    ((struct batch_cursor *)base)->row++;
    return SQLITE_OK;
}

static int cursor_at_end(sqlite3_vtab_cursor *base)
{
    const struct batch_cursor *cursor = (struct batch_cursor *)base;
    return cursor->row >= cursor->end;
}

static void result_id(sqlite3_context *context, int64_t id)
{
    if (id != 0)
        sqlite3_result_int64(context, id);
}

/* A column that is given no result is NULL. */
static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct mt_batch_row *row = ((struct batch_cursor *)base)->row;
    const struct mt_event *event = row->event;
    if ((columns_of_kind[event->kind] & 1u << column) == 0)
        return SQLITE_OK;
    switch ((enum column)column) {
    case TIME:
        sqlite3_result_int64(context, (int64_t)event->time_ns);
        break;
    case KIND:
        sqlite3_result_int(context, event->kind);
        break;
    case STREAM:
        sqlite3_result_int(context, event->stream);
        break;
    case LABEL:
        result_id(context, mt_label_number(event->label));
        break;
    case SPAN:
        result_id(context, row->span);
        break;
    case REQUESTED:
        sqlite3_result_int64(context, (int64_t)event->requested_bytes);
        break;
    case BLOCK:
        sqlite3_result_int64(context, (int64_t)event->block_bytes);
        break;
    case SEGMENT:
        sqlite3_result_int64(context, event->segment);
        break;
    case OFFSET:
        sqlite3_result_int64(context, (int64_t)event->offset);
        break;
    case ALLOCATION:
        result_id(context, row->allocation);
        break;
    }
    return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    const struct batch_cursor *cursor = (struct batch_cursor *)base;
    *out = cursor->end - cursor->row;
    return SQLITE_OK;
}

static const sqlite3_module BATCH_MODULE = {
    .xConnect = table_connect,
    .xBestIndex = table_best_index,
    .xDisconnect = table_disconnect,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_at_end,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

mt_status mt_batch_create(struct mt_database *database, struct mt_batch **out)
{
    struct mt_batch *batch = mt_host_alloc(sizeof *batch);
    mt_status status = MT_OK;
    batch->database = database;
    if (sqlite3_create_module(mt_database_handle(database), "mt_batch", &BATCH_MODULE, batch) != SQLITE_OK)
        status = mt_fail(MT_FAILED, "%s", sqlite3_errmsg(mt_database_handle(database)));
    if (status == MT_OK)
        status = mt_database_prepare(database, INSERT, &batch->insert);
    *out = batch;
    return status;
}

mt_status mt_batch_store(struct mt_batch *batch)
{
    if (batch->count == 0)
        return MT_OK;
    mt_status status = mt_statement_run(batch->insert);
    batch->count = 0;
    return status;
}

void mt_batch_destroy(struct mt_batch *batch)
{
    if (batch == NULL)
        return;
    mt_statement_finalize(batch->insert);
    sqlite3_create_module(mt_database_handle(batch->database), "mt_batch", NULL, NULL);
    free(batch);
}
