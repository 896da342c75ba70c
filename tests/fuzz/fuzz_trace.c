/* Fuzzes readers of traces, verify and salvage. The bytes are SQL changes of a complete trace, so that the damage is
 * not in SQLite's structures or in the checksums of pages.
 *
 *  of each change   the table (1 byte), the column (1), the row (2), the operation (1), a number (8) */
#include "fuzzed_trace.h"

enum { EVENTS = 250, CHANGE_BYTES = 13, MOST_CHANGES = 24 };

static const struct {
    const char *name, *columns[16];
} tables[] = {
    {"run",
     {"id", "name", "state", "device", "capacity_bytes", "first_event", "event_count", "ring_position", "lost_events",
      "complete_from_bytes", "missing_records", "rank", "world_size", "host", "ended_by"}},
    {"setting", {"run", "name", "value"}},
    {"measurement", {"run", "name", "step", "value"}},
    {"span", {"run", "id", "parent", "name", "path"}},
    {"label", {"run", "id", "category", "role", "op", "span", "phase", "layer", "dtype", "shape", "role_source"}},
    {"event",
     {"id", "time_ns", "kind", "stream", "label", "span", "requested_bytes", "block_bytes", "segment", "offset",
      "allocation", "stack"}},
    {"batch", {"run", "first_event", "event_count", "checksum"}},
    {"frame", {"run", "id", "function", "file", "line"}},
    {"stack", {"run", "id", "parent", "frame"}},
    {"outside", {"run", "event", "time_ns", "kind", "name", "bytes"}},
    {"kernel", {"run", "id", "start_ns", "duration_ns", "name", "label", "step", "stream"}},
    {"block_use",
     {"allocation", "reads", "writes", "first_use", "last_use", "idle_from", "idle_to", "copied_from", "unread"}},
    {"segment", {"run", "id", "address", "bytes", "stream", "mapped_event", "unmapped_event"}},
    {"segment_part", {"run", "segment", "offset", "mapped_event", "bytes", "unmapped_event"}},
    {"step", {"run", "number", "first_event", "last_event", "begin_ns", "end_ns"}},
    {"checkpoint", {"run", "event", "live"}},
    {"summary_peak", {"run", "step", "measure", "bytes", "event"}},
    {"summary_peak_category", {"run", "step", "measure", "category", "allocated_bytes", "requested_bytes", "blocks"}},
    {"summary_peak_role", {"run", "step", "measure", "role", "allocated_bytes", "requested_bytes", "blocks"}},
    {"summary_category", {"run", "step", "phase", "category", "count", "total_bytes", "max_bytes"}},
    {"summary_allocation", {"run", "requested_bytes", "label", "count", "first_event"}},
    {"caveat", {"run", "kind", "name", "file", "line", "count", "total", "bytes", "value"}},
};
enum { TABLES = sizeof tables / sizeof tables[0] };

/* The ways of changing a column, and of changing rows. */
static const char *const changes[] = {
    "UPDATE OR IGNORE %s SET %s = ?1 WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET ?2)",
    "UPDATE OR IGNORE %s SET %s = %s + ?1 WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET ?2)",
    "UPDATE OR IGNORE %s SET %s = NULL WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET ?2)",
    "UPDATE OR IGNORE %s SET %s = 'text' || ?1 WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET ?2)",
    "UPDATE OR IGNORE %s SET %s = CAST(?1 AS BLOB) WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET ?2)",
    "DELETE FROM %s WHERE %s = (SELECT %s FROM %s LIMIT 1 OFFSET ?2)",
};
enum { WAYS = sizeof changes / sizeof changes[0] };

/* Replaces each %s of a format: the table after FROM, UPDATE and INTO, the column elsewhere. */
static void make_sql(char *out, size_t room, const char *format, const char *table, const char *column)
{
    size_t used = 0;
    for (const char *at = format; *at != '\0' && used + 64 < room; at++) {
        const bool is_table = (at >= format + 5 && strncmp(at - 5, "FROM ", 5) == 0) ||
                              (at >= format + 7 && strncmp(at - 7, "IGNORE ", 7) == 0);
        if (at[0] == '%' && at[1] == 's') {
            used += (size_t)snprintf(out + used, room - used, "%s", is_table ? table : column);
            at++;
        } else {
            out[used++] = *at;
        }
    }
    out[used] = '\0';
}

static void change(sqlite3 *database, const uint8_t *bytes)
{
    char sql[512];
    sqlite3_stmt *statement;
    const int table = bytes[0] % TABLES;
    int columns = 0;
    int64_t number;
    while (columns < 16 && tables[table].columns[columns] != NULL)
        columns++;
    memcpy(&number, bytes + 5, sizeof number);
    make_sql(sql, sizeof sql, changes[bytes[4] % WAYS], tables[table].name, tables[table].columns[bytes[1] % columns]);
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
        abort();
    sqlite3_bind_int64(statement, 1, number);
    sqlite3_bind_int64(statement, 2, bytes[2] | bytes[3] << 8);
    sqlite3_step(statement);
    sqlite3_finalize(statement);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    sqlite3 *database;
    if (fuzzed_begins())
        fuzzed_record(EVENTS);
    fuzzed_write(names.path, whole);
    if (sqlite3_open(names.path, &database) != SQLITE_OK)
        abort();
    sqlite3_exec(database, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; BEGIN", NULL, NULL, NULL);
    for (size_t i = 0; i < MOST_CHANGES && (i + 1) * CHANGE_BYTES <= length; i++)
        change(database, data + i * CHANGE_BYTES);
    sqlite3_exec(database, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(database);
    return fuzzed_try(data, length);
}
