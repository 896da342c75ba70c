#include "trace/store/batch.h"

#include "base/memory.h"
#include "base/order.h"
#include "base/text.h"
#include "trace/store/ring_record.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdlib.h>

struct mt_batch_table {
    const char *name;    /* of the virtual table */
    const char *columns; /* of the virtual table, separated by commas */
    const char *insert;  /* the statement that moves its rows into the table */
    size_t row_bytes;
    size_t capacity;                            /* rows */
    int (*compare)(const void *, const void *); /* the order of insertion; NULL: as they were added */
};

/* Invariant: count <= table->capacity; they are equal only until the rows are stored. */
struct mt_batch {
    const struct mt_batch_table *table;
    struct mt_database *database;
    struct mt_statement *insert;
    size_t count;
    unsigned char *rows;
};

struct virtual_table {
    sqlite3_vtab base;
    const struct mt_batch *batch;
};

/* A position in the rows that the batch had when the cursor was opened. */
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
    assert(batch->count <= batch->table->capacity);
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

static const void *current_row(const sqlite3_vtab_cursor *base)
{
    const struct cursor *cursor = (const struct cursor *)base;
    assert(cursor->row < cursor->end);
    return cursor->row;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    const struct cursor *cursor = (struct cursor *)base;
    *out = cursor->end - cursor->row;
    return SQLITE_OK;
}

/* Every row is an array of columns. */
static int give_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    const int64_t *columns = current_row(cursor);
    if (columns[column] != MT_NULL_COLUMN)
        sqlite3_result_int64(context, columns[column]);
    return SQLITE_OK;
}

/* The functions of every virtual table. */
static const sqlite3_module module = {
    .xConnect = connect_table,
    .xBestIndex = choose_plan,
    .xDisconnect = disconnect_table,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_at_end,
    .xColumn = give_column,
    .xRowid = cursor_rowid,
};

mt_status mt_batch_create(struct mt_database *database, const struct mt_batch_table *table, struct mt_batch **out)
{
    struct mt_batch *batch = mt_host_alloc(sizeof *batch);
    mt_status status = MT_OK;
    batch->table = table;
    batch->database = database;
    batch->rows = mt_host_alloc(table->capacity * table->row_bytes);
    if (sqlite3_create_module(mt_database_handle(database), table->name, &module, batch) != SQLITE_OK)
        status = mt_fail(MT_FAILED, "%s", sqlite3_errmsg(mt_database_handle(database)));
    MT_THEN(status, mt_database_prepare(database, table->insert, &batch->insert));
    *out = batch;
    return status;
}

void *mt_batch_add(struct mt_batch *batch)
{
    assert(batch->count < batch->table->capacity);
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
    /* SQLite calls the module once more, to release its table, but only when another statement is prepared. */
    sqlite3_exec(handle, "SELECT 1", NULL, NULL, NULL);
    free(batch->rows);
    free(batch);
}

/* The columns of table event after id, which SQLite increments itself. */
enum event_column {
    EVENT_TIME,
    EVENT_KIND,
    EVENT_STREAM,
    EVENT_LABEL,
    EVENT_SPAN,
    EVENT_REQUESTED,
    EVENT_BLOCK,
    EVENT_SEGMENT,
    EVENT_OFFSET,
    EVENT_ALLOCATION,
    EVENT_STACK
};
_Static_assert(EVENT_STACK + 1 == MT_EVENT_COLUMNS, "every column has its number");

#define ALWAYS (1u << EVENT_TIME | 1u << EVENT_KIND | 1u << EVENT_STREAM)

/* The columns that a kind fills, a bit each. The others are NULL, which needs no space in the file. */
static const unsigned columns_of_kind[MT_EVENT_KIND_COUNT] = {
    [MT_EVENT_SEGMENT_MAP] = ALWAYS | 1u << EVENT_BLOCK | 1u << EVENT_SEGMENT | 1u << EVENT_OFFSET,
    [MT_EVENT_SEGMENT_UNMAP] = ALWAYS | 1u << EVENT_BLOCK | 1u << EVENT_SEGMENT | 1u << EVENT_OFFSET,
    [MT_EVENT_ALLOC] = ALWAYS | 1u << EVENT_LABEL | 1u << EVENT_SPAN | 1u << EVENT_REQUESTED | 1u << EVENT_BLOCK |
                       1u << EVENT_SEGMENT | 1u << EVENT_OFFSET | 1u << EVENT_STACK,
    [MT_EVENT_FREE] = ALWAYS | 1u << EVENT_LABEL | 1u << EVENT_REQUESTED | 1u << EVENT_BLOCK | 1u << EVENT_ALLOCATION,
    [MT_EVENT_OOM] = ALWAYS | 1u << EVENT_LABEL | 1u << EVENT_SPAN | 1u << EVENT_REQUESTED | 1u << EVENT_STACK,
    [MT_EVENT_SPAN_BEGIN] = ALWAYS | 1u << EVENT_SPAN,
    [MT_EVENT_SPAN_END] = ALWAYS | 1u << EVENT_SPAN,
    [MT_EVENT_STEP_BEGIN] = ALWAYS | 1u << EVENT_REQUESTED,
    [MT_EVENT_STEP_END] = ALWAYS | 1u << EVENT_REQUESTED,
    [MT_EVENT_PHASE] = ALWAYS | 1u << EVENT_REQUESTED,
    [MT_EVENT_RELABEL] = ALWAYS | 1u << EVENT_LABEL | 1u << EVENT_SPAN | 1u << EVENT_REQUESTED | 1u << EVENT_BLOCK |
                         1u << EVENT_ALLOCATION,
};

/* The most requested bytes that a column can hold, since a program may request any number and columns are signed. It is
 * some pages below the limit, so that a segment for such a request has a valid size, too. */
static const uint64_t MOST_BYTES = (UINT64_C(1) << 63) - (2 << 20);

static int64_t bytes_column(uint64_t bytes)
{
    return (int64_t)(bytes < MOST_BYTES ? bytes : MOST_BYTES);
}

static int64_t id_column(int64_t id)
{
    return id != 0 ? id : MT_NULL_COLUMN;
}

void mt_event_row_set(struct mt_event_row_in *row, const struct mt_event *event, int64_t allocation, mt_span_id span)
{
    assert(event->kind < MT_EVENT_KIND_COUNT);
    const int64_t values[MT_EVENT_COLUMNS] = {
        [EVENT_TIME] = (int64_t)event->time_ns,
        [EVENT_KIND] = event->kind,
        [EVENT_STREAM] = event->stream,
        [EVENT_LABEL] = id_column(mt_label_number(event->label)),
        [EVENT_SPAN] = id_column(span),
        [EVENT_REQUESTED] = bytes_column(event->requested_bytes),
        [EVENT_BLOCK] = (int64_t)event->block_bytes,
        [EVENT_SEGMENT] = event->segment,
        [EVENT_OFFSET] = (int64_t)event->offset,
        [EVENT_ALLOCATION] = id_column(allocation),
        [EVENT_STACK] = id_column(event->stack),
    };
    unsigned filled = columns_of_kind[event->kind];
    for (int i = 0; i < MT_EVENT_COLUMNS; i++)
        row->columns[i] = (filled & 1u << i) != 0 ? values[i] : MT_NULL_COLUMN;
}

void mt_event_row_read(struct mt_event_row_in *row, const struct mt_statement *statement, int first_column)
{
    for (int i = 0; i < MT_EVENT_COLUMNS; i++) {
        const int64_t value = mt_statement_integer(statement, first_column + i);
        const bool is_null = value == 0 && mt_statement_is_null(statement, first_column + i);
        row->columns[i] = is_null ? MT_NULL_COLUMN : value;
    }
}

/* Returns the number in a column, 0 for NULL. Sets *fits to false if it is not from 0 to `most`. */
static uint64_t number_of(const struct mt_event_row_in *row, enum event_column column, uint64_t most, bool *fits)
{
    const int64_t value = row->columns[column] != MT_NULL_COLUMN ? row->columns[column] : 0;
    *fits = *fits && (uint64_t)value <= most;
    return (uint64_t)value;
}

bool mt_event_row_get(const struct mt_event_row_in *row, struct mt_event *out, int64_t *out_allocation)
{
    const uint64_t last_label = (1u << MT_LABEL_NUMBER_BITS) - 1;
    bool fits = true;
    *out = (struct mt_event){
        .time_ns = number_of(row, EVENT_TIME, UINT64_MAX, &fits),
        .kind = (uint16_t)number_of(row, EVENT_KIND, MT_EVENT_KIND_COUNT - 1, &fits),
        .stream = (mt_stream)number_of(row, EVENT_STREAM, UINT16_MAX, &fits),
        .label = (mt_label_id)number_of(row, EVENT_LABEL, last_label, &fits),
        .span = (mt_span_id)number_of(row, EVENT_SPAN, UINT32_MAX, &fits),
        .requested_bytes = number_of(row, EVENT_REQUESTED, UINT64_MAX, &fits),
        .block_bytes = number_of(row, EVENT_BLOCK, UINT64_MAX, &fits),
        .segment = (uint32_t)number_of(row, EVENT_SEGMENT, UINT32_MAX, &fits),
        .offset = number_of(row, EVENT_OFFSET, UINT64_MAX, &fits),
        .stack = (mt_stack_id)number_of(row, EVENT_STACK, UINT32_MAX, &fits),
    };
    *out_allocation = (int64_t)number_of(row, EVENT_ALLOCATION, UINT64_MAX, &fits);
    return fits;
}

uint64_t mt_event_row_checksum(uint64_t checksum, const struct mt_event_row_in *row)
{
    uint64_t sum = checksum ^ 0x9E3779B97F4A7C15u;
    for (int i = 0; i + 1 < MT_EVENT_COLUMNS; i += 2)
        sum += mt_fold((uint64_t)row->columns[i] ^ 0xBF58476D1CE4E5B9u * (uint64_t)(2 * i + 1),
                       (uint64_t)row->columns[i + 1] ^ 0x94D049BB133111EBu * (uint64_t)(2 * i + 1));
    return mt_fold(sum ^ 0xD6E8FEB86659FD93u, (uint64_t)row->columns[MT_EVENT_COLUMNS - 1] ^ 0xA0761D6478BD642Fu);
}

/* The columns are in the order of table event, so that SQLite need not reorder them. An id of NULL is the next one. */
const struct mt_batch_table mt_event_batch = {
    .name = "mt_event_batch",
    .columns = "time_ns, kind, stream, label, span, requested_bytes, block_bytes, segment, offset, allocation, stack",
    .insert = "INSERT INTO event SELECT NULL, * FROM mt_event_batch",
    .row_bytes = sizeof(struct mt_event_row_in),
    .capacity = 1024,
};

/* Returns the id of the event with a sequence. */
static int64_t moment(int64_t first_event, uint64_t sequence, bool happened)
{
    return happened ? (int64_t)((uint64_t)first_event + sequence) : MT_NULL_COLUMN;
}

void mt_use_row_set(struct mt_use_row_in *row, int64_t first_event, const struct mt_use *use)
{
    bool used = use->reads > 0 || use->writes > 0, paused = use->idle_to > use->idle_from;
    *row = (struct mt_use_row_in){{
        moment(first_event, use->block, true),
        use->reads,
        use->writes,
        moment(first_event, use->first, used),
        moment(first_event, use->last, used),
        moment(first_event, use->idle_from, paused),
        moment(first_event, use->idle_to, paused),
        moment(first_event, use->copied_from, use->copied_from != 0),
        use->unread,
    }};
}

/* By allocation, the table's key: in this order, rows cost a tenth less and fill its pages better by a fifth. */
static int compare_uses(const void *left, const void *right)
{
    const struct mt_use_row_in *a = left, *b = right;
    return MT_COMPARE(a->columns[0], b->columns[0]);
}

const struct mt_batch_table mt_use_batch = {
    .name = "mt_use_batch",
    .columns = "allocation, reads, writes, first_use, last_use, idle_from, idle_to, copied_from, unread",
    .insert = "INSERT OR REPLACE INTO block_use SELECT * FROM mt_use_batch",
    .row_bytes = sizeof(struct mt_use_row_in),
    .capacity = 4096,
    .compare = compare_uses,
};

/* A stack comes after its caller's, so rows are in the order of the key unless a ring was damaged. */
const struct mt_batch_table mt_stack_batch = {
    .name = "mt_stack_batch",
    .columns = "run, id, parent, frame",
    .insert = "INSERT OR REPLACE INTO stack SELECT * FROM mt_stack_batch",
    .row_bytes = sizeof(struct mt_stack_row_in),
    .capacity = 4096,
};
