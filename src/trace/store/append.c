#include "trace/store/append.h"

#include "base/text.h"
#include "trace/store/batch.h"
#include "trace/store/row_copy.h"
#include "trace/store/store.h"
#include "trace/store/trace_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* All tables except event_kind. Rows of a run have its number in column `run`; of event and block_use, all rows are
 * copied. */
static const char *const tables[] = {"run",
                                     "setting",
                                     "measurement",
                                     "span",
                                     "label",
                                     "event",
                                     "batch",
                                     "frame",
                                     "stack",
                                     "outside",
                                     "caveat",
                                     "program_phase",
                                     "pool",
                                     "holder",
                                     "finding",
                                     "kernel",
                                     "kernel_name",
                                     "block_use",
                                     "segment",
                                     "segment_part",
                                     "step",
                                     "checkpoint",
                                     "summary_peak",
                                     "summary_peak_category",
                                     "summary_peak_role",
                                     "summary_category",
                                     "summary_allocation"};
enum { TABLES = sizeof tables / sizeof tables[0] };

/* The columns with an event's id, in any table. */
static const char *const event_columns[] = {"first_event",    "last_event", "event",       "mapped_event",
                                            "unmapped_event", "allocation", "first_use",   "last_use",
                                            "idle_from",      "idle_to",    "copied_from", "peak_event"};
enum { EVENT_COLUMNS = sizeof event_columns / sizeof event_columns[0] };

/* Two traces, and the numbers that are added to numbers of the first one. */
struct append {
    struct mt_database *from, *to;
    int64_t runs, events;
};

/* ---- rows ---- */

static bool holds_event(const char *table, const char *column)
{
    for (size_t i = 0; i < EVENT_COLUMNS; i++)
        if (strcmp(column, event_columns[i]) == 0)
            return true;
    return strcmp(table, "event") == 0 && strcmp(column, "id") == 0;
}

static bool holds_run(const char *table, const char *column)
{
    return strcmp(column, "run") == 0 || (strcmp(table, "run") == 0 && strcmp(column, "id") == 0);
}

/* Adds the values of the columns for the other trace. NULL stays NULL. */
static void add_values(const struct append *append, const char *table, char *columns, struct mt_text *out)
{
    for (char *rest = columns, *column; (column = strsep(&rest, ", ")) != NULL;) {
        if (column[0] == '\0')
            continue; /* between the comma and the space */
        mt_text_add(out, "%s%s", out->length > 0 ? ", " : "", column);
        if (holds_event(table, column))
            mt_text_add(out, " + %" PRId64, append->events);
        else if (holds_run(table, column))
            mt_text_add(out, " + %" PRId64, append->runs);
    }
}

static mt_status copy_table(const struct append *append, const char *table)
{
    struct mt_text columns = {0}, values = {0}, sql = {0};
    struct mt_statement *insert, *rows = NULL;
    bool more = true;
    mt_status status = mt_row_copy_prepare(append->to, table, &columns, &insert);
    if (status == MT_OK)
        add_values(append, table, columns.data, &values);
    mt_text_add(&sql, "SELECT %s FROM %s", mt_text_get(&values), table);
    MT_THEN(status, mt_database_prepare(append->from, mt_text_get(&sql), &rows));
    while (status == MT_OK && (status = mt_statement_step(rows, &more)) == MT_OK && more)
        status = mt_row_copy(rows, insert);
    mt_statement_finalize(rows);
    mt_statement_finalize(insert);
    mt_text_release(&columns);
    mt_text_release(&values);
    mt_text_release(&sql);
    return status;
}

/* ---- checksums, which depend on the ids of events ---- */

static mt_status sum_batch(struct mt_database *database, int64_t first, int64_t count, uint64_t *out)
{
    mt_status status = MT_OK;
    *out = (uint64_t)first;
    MT_EACH_ROW (row, status, database,
                 "SELECT time_ns, kind, stream, label, span, requested_bytes, block_bytes, segment, offset, allocation,"
                 " stack FROM event NOT INDEXED WHERE id >= ?1 AND id < ?1 + ?2 ORDER BY id",
                 MT_BIND_INTEGER(first), MT_BIND_INTEGER(count)) {
        struct mt_event_row_in event;
        mt_event_row_read(&event, row, 0);
        *out = mt_event_row_checksum(*out, &event);
    }
    return status;
}

static mt_status sum_batches(const struct append *append)
{
    struct mt_statement *update;
    mt_status status =
        mt_database_prepare(append->to, "UPDATE batch SET checksum = ?3 WHERE run = ?1 AND first_event = ?2", &update);
    MT_EACH_ROW (row, status, append->to, "SELECT run, first_event, event_count FROM batch WHERE run > ?1",
                 MT_BIND_INTEGER(append->runs)) {
        const int64_t run = mt_statement_integer(row, 0), first = mt_statement_integer(row, 1);
        uint64_t sum;
        status = sum_batch(append->to, first, mt_statement_integer(row, 2), &sum);
        MT_THEN(status, MT_RUN_WITH(update, 1, MT_BIND_INTEGER(run), MT_BIND_INTEGER(first), MT_BIND_INTEGER(sum)));
    }
    mt_statement_finalize(update);
    return status;
}

/* ---- the trace ---- */

static mt_status copy_all(struct append *append)
{
    MT_TRY(mt_database_begin(append->to));
    MT_TRY(mt_database_integer(append->to, "SELECT max(id) FROM run", &append->runs));
    MT_TRY(mt_database_integer(append->to, "SELECT max(id) FROM event NOT INDEXED", &append->events));
    for (size_t i = 0; i < TABLES; i++)
        MT_TRY(copy_table(append, tables[i]));
    MT_TRY(sum_batches(append));
    return mt_database_commit(append->to);
}

/* Opens the trace for writing; its ring must be claimed. First completes an earlier process's runs in it. */
static mt_status write_to(const char *path, struct mt_ring *ring, struct append *append, bool *out_damaged)
{
    MT_TRY(mt_database_open_writing(path, &append->to));
    mt_status status = mt_recovery_run(append->to, ring, out_damaged);
    MT_THEN(status, copy_all(append));
    if (status == MT_OK)
        return mt_database_close_as_one_file(append->to);
    const struct mt_error error = mt_error_save(status);
    mt_database_rollback(append->to);
    mt_database_close(append->to);
    return mt_error_restore(&error, status);
}

/* Excludes other writers meanwhile. */
static mt_status claim_and_write(const char *path, struct append *append)
{
    mt_ring_outcome outcome;
    int64_t pid;
    struct mt_ring *ring;
    bool is_damaged = false;
    MT_TRY(mt_trace_file_check_writing(path));
    MT_TRY(mt_database_check_writing(path));
    MT_TRY(mt_ring_open(path, MT_RING_CREATE, &outcome, &pid, &ring));
    if (outcome != MT_RING_CLAIMED)
        return mt_fail(MT_FAILED, "%s is being written by another process", path);
    mt_status status = write_to(path, ring, append, &is_damaged);
    if (is_damaged)
        mt_ring_put_aside(ring);
    else if (status == MT_OK)
        mt_ring_remove(ring);
    else
        mt_ring_abandon(ring);
    return status;
}

mt_status mt_trace_append(const char *from, const char *to, int64_t *out_shift)
{
    struct append append = {0};
    char *path;
    MT_TRY(mt_trace_file_resolve(to, &path));
    mt_status status = mt_store_open_reading(from, &append.from);
    MT_THEN(status, claim_and_write(path, &append));
    mt_database_close(append.from);
    *out_shift = append.runs;
    free(path);
    return status;
}
