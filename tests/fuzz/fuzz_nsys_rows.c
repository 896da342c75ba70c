/* Fuzzes the reader of Nsight's exports behind SQLite: the bytes are the rows of a sound database.
 *
 *  of each table   the kind of table (1 byte), the columns that it lacks (2 bytes)
 *  of each row     the table (1), then for each column the kind of value (1) and the value (0 to 80) */
#include "fuzzed_export.h"

#include "base/text.h"
#include "trace/store/database.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

enum { MOST_COLUMNS = 10, MOST_TEXT_BYTES = 80 };

static const struct table {
    const char *name, *columns[MOST_COLUMNS];
} tables[] = {
    {"CUDA_GPU_MEMORY_USAGE_EVENTS",
     {"start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType", "name", "streamId"}},
    {"NVTX_EVENTS", {"start", "end", "eventType", "text", "globalTid", "textId"}},
    {"CUPTI_ACTIVITY_KIND_KERNEL", {"start", "end", "deviceId", "streamId", "demangledName", "globalPid"}},
    {"StringIds", {"id INTEGER PRIMARY KEY", "value"}},
};
enum { TABLES = sizeof tables / sizeof tables[0] };

/* Kinds of tables; the others are normal. */
enum { ABSENT = 1, WITHOUT_ROW_NUMBERS, VIEW, TABLE_KINDS = 8 };

/* A database that is being filled. */
struct filling {
    const uint8_t *at, *end; /* the rest of the input */
    struct mt_database *database;
    struct mt_statement *inserts[TABLES]; /* NULL: nothing can be inserted */
    int columns[TABLES];                  /* the number of columns that are there */
};

/* Takes a number of so many bytes; missing ones are 0. */
static uint64_t take(struct filling *filling, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes && filling->at < filling->end; i++)
        number |= (uint64_t)*filling->at++ << (8 * i);
    return number;
}

/* Adds the names of the columns that are there, and returns their number. */
static int add_columns(struct mt_text *sql, const struct table *table, uint64_t lacks)
{
    int count = 0;
    for (int i = 0; i < MOST_COLUMNS && table->columns[i] != NULL; i++)
        if ((lacks >> i & 1) == 0)
            mt_text_add(sql, "%s%s", count++ > 0 ? ", " : "", table->columns[i]);
    return count;
}

static void create_table(struct filling *filling, int number)
{
    static const char view[] =
        "CREATE VIEW %s AS SELECT 1 AS start, 2 AS end, 59 AS eventType, 0 AS memoryOperationType";
    struct mt_text columns = {0}, sql = {0};
    uint64_t kind = take(filling, 1) % TABLE_KINDS;
    filling->columns[number] = add_columns(&columns, &tables[number], take(filling, 2));
    if (kind == VIEW)
        mt_text_add(&sql, view, tables[number].name);
    else if (kind == WITHOUT_ROW_NUMBERS)
        mt_text_add(&sql, "CREATE TABLE %s(%s, PRIMARY KEY (start)) WITHOUT ROWID", tables[number].name,
                    mt_text_get(&columns));
    else if (kind != ABSENT)
        mt_text_add(&sql, "CREATE TABLE %s(%s)", tables[number].name, mt_text_get(&columns));
    mt_database_execute(filling->database, mt_text_get(&sql));
    mt_text_release(&columns);
    mt_text_release(&sql);
}

static void prepare_insert(struct filling *filling, int number)
{
    struct mt_text sql = {0};
    mt_text_add(&sql, "INSERT OR IGNORE INTO %s VALUES (?", tables[number].name);
    for (int i = 1; i < filling->columns[number]; i++)
        mt_text_add(&sql, ", ?");
    mt_text_add(&sql, ")");
    if (mt_database_prepare(filling->database, mt_text_get(&sql), &filling->inserts[number]) != MT_OK)
        filling->inserts[number] = NULL;
    mt_text_release(&sql);
}

static void bind_text(struct filling *filling, struct mt_statement *insert, int index)
{
    char text[MOST_TEXT_BYTES + 1];
    size_t length = take(filling, 1) % (MOST_TEXT_BYTES + 1), left = (size_t)(filling->end - filling->at);
    length = length < left ? length : left;
    memcpy(text, filling->at, length);
    text[length] = '\0';
    filling->at += length;
    mt_statement_bind_text(insert, index, text);
}

/* Small numbers are most likely: most values are an id, a kind or a time. */
static void bind_value(struct filling *filling, struct mt_statement *insert, int index)
{
    switch (take(filling, 1) % 8) {
    case 0:
        mt_statement_bind(insert, index, MT_BIND_NULL);
        break;
    case 1:
        mt_statement_bind_integer(insert, index, (int64_t)take(filling, 8));
        break;
    case 2:
        mt_statement_bind(insert, index, MT_BIND_REAL((double)(int64_t)take(filling, 8) / 3));
        break;
    case 3:
    case 4:
        bind_text(filling, insert, index);
        break;
    default:
        mt_statement_bind_integer(insert, index, (int64_t)take(filling, 1));
    }
}

static void insert_row(struct filling *filling)
{
    int number = (int)(take(filling, 1) % TABLES);
    for (int i = 0; i < filling->columns[number] && filling->inserts[number] != NULL; i++)
        bind_value(filling, filling->inserts[number], i + 1);
    if (filling->inserts[number] != NULL)
        mt_statement_run(filling->inserts[number]);
}

static void fill(struct filling *filling)
{
    for (int i = 0; i < TABLES; i++) {
        create_table(filling, i);
        prepare_insert(filling, i);
    }
    while (filling->at < filling->end)
        insert_row(filling);
    for (int i = 0; i < TABLES; i++)
        mt_statement_finalize(filling->inserts[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct filling filling = {.at = data, .end = data + length};
    struct fuzzed_export export = fuzzed_export_create();
    if (export.descriptor < 0 || mt_database_create_export(export.path, &filling.database) != MT_OK)
        abort();
    fill(&filling);
    mt_status status = mt_database_commit(filling.database);
    mt_database_close(filling.database);
    if (status == MT_OK)
        fuzzed_export_tell(&export);
    fuzzed_export_remove(&export);
    return 0;
}
