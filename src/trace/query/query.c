#include "trace/query/query.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace/store/database.h"
#include "trace/store/page_file.h"
#include "trace/store/store.h"

#include <assert.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *mt_trace_keep(struct mt_trace *trace, const char *text)
{
    mt_span_id id = mt_interner_span(trace->texts, 0, text != NULL ? text : "", NULL);
    assert(id != 0);
    return mt_interner_find_span(trace->texts, id)->name;
}

const char *mt_query_text(struct mt_trace *trace, const struct mt_statement *statement, int column)
{
    return mt_trace_keep(trace, mt_statement_text(statement, column));
}

mt_status mt_query_prepare(struct mt_trace *trace, const struct mt_run *run, const char *sql, struct mt_statement **out)
{
    assert(run->first_event >= 0 && run->event_count >= 0);
    mt_status status = mt_database_prepare(trace->database, sql, out);
    mt_statement_bind_integer(*out, 1, run->id);
    return status;
}

mt_status mt_query_hand_over(mt_status status, void *rows, size_t count, void *out_rows, size_t *out_count)
{
    assert(count == 0 || rows != NULL);
    if (status != MT_OK) {
        free(rows);
        rows = NULL;
        count = 0;
    }
    memcpy(out_rows, &rows, sizeof rows);
    *out_count = count;
    return status;
}

mt_status mt_query_natural(const struct mt_statement *row, int column, uint64_t *out)
{
    int64_t value = mt_statement_integer(row, column);
    if (value < 0)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: a row's %s is %" PRId64,
                       mt_statement_column_name(row, column), value);
    *out = (uint64_t)value;
    return MT_OK;
}

mt_status mt_query_row_natural(const struct mt_row *row, int column, uint64_t *out)
{
    int64_t value = mt_row_integer(row, column);
    if (value < 0)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " has a size, a place or a time below 0",
                       mt_row_integer(row, 0));
    *out = (uint64_t)value;
    return MT_OK;
}

mt_status mt_query_label_number(const struct mt_statement *row, int column, const struct mt_number_limits *limits,
                                uint32_t *out)
{
    int64_t number = mt_statement_integer(row, column);
    if (number < 0 || number >= limits->labels)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: an event has label %" PRId64 ", of %" PRIu32, number,
                       limits->labels);
    *out = (uint32_t)number;
    return MT_OK;
}

/* Reads a limit. The column's name is that of the numbered thing. */
static mt_status read_limit(const struct mt_statement *row, int column, int64_t most, uint32_t *out)
{
    int64_t limit = mt_statement_integer(row, column);
    if (limit < 0 || limit > most)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: its last %s would be number %" PRId64,
                       mt_statement_column_name(row, column), limit - 1);
    *out = (uint32_t)limit;
    return MT_OK;
}

mt_status mt_query_number_limits(struct mt_trace *trace, const struct mt_run *run, struct mt_number_limits *out)
{
    *out = (struct mt_number_limits){0};
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT ifnull((SELECT max(id) FROM label WHERE run = ?1), 0) + 1 AS label,"
                 " ifnull((SELECT max(id) FROM segment WHERE run = ?1), -1) + 1 AS segment",
                 MT_BIND_INTEGER(run->id)) {
        status = read_limit(row, 0, 1 << MT_LABEL_NUMBER_BITS, &out->labels);
        MT_THEN(status, read_limit(row, 1, UINT32_MAX, &out->segments));
    }
    return status;
}

enum { ANY_NUMBER_OF_ARGUMENTS = -1 };

struct mt_row {
    sqlite3_value **values;
};

int64_t mt_row_integer(const struct mt_row *row, int column)
{
    return sqlite3_value_int64(row->values[column]);
}

static void visit(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    struct mt_row_visitor *visitor = sqlite3_user_data(context);
    if (visitor->status == MT_OK)
        visitor->status = visitor->visit(visitor->context, &(struct mt_row){values});
}

/* Leaves the result of the aggregate NULL. */
static void finish(sqlite3_context *context)
{
    (void)context;
}

/* Only our own statements may call it (DIRECTONLY): no view or trigger of a file of others. */
static int define(struct mt_database *database, const char *name, struct mt_row_visitor *visitor)
{
    return sqlite3_create_function(mt_database_handle(database), name, ANY_NUMBER_OF_ARGUMENTS,
                                   SQLITE_UTF8 | SQLITE_DIRECTONLY, visitor, NULL, visitor != NULL ? visit : NULL,
                                   visitor != NULL ? finish : NULL);
}

mt_status mt_row_visitor_add(struct mt_database *database, struct mt_row_visitor *visitor)
{
    assert(visitor->status == MT_OK);
    if (define(database, visitor->name, visitor) == SQLITE_OK)
        return MT_OK;
    return mt_fail(MT_FAILED, "%s: %s", mt_database_path(database), sqlite3_errmsg(mt_database_handle(database)));
}

void mt_row_visitor_remove(struct mt_database *database, const struct mt_row_visitor *visitor)
{
    define(database, visitor->name, NULL);
}

static const char runs_sql[] =
    "SELECT id, name, state, started_at, device, capacity_bytes, first_event, event_count, lost_events,"
    " complete_from_bytes, stall_count, stall_ns, (SELECT count(*) FROM step WHERE step.run = run.id),"
    " (SELECT max(number) FROM step WHERE step.run = run.id AND last_event IS NOT NULL),"
    " (SELECT max(id) FROM event NOT INDEXED), missing_records, ifnull(rank, -1), ifnull(local_rank, -1), "
    "ifnull(world_size, -1),"
    " host, job, pid, EXISTS (SELECT 1 FROM setting WHERE setting.run = run.id AND setting.name = 'file'),"
    " ended_by"
    " FROM run ORDER BY id";

enum { LAST_EVENT = 14 }; /* the column with the trace's last event */

static const char *text_or_null(struct mt_trace *trace, const struct mt_statement *row, int column)
{
    return mt_statement_is_null(row, column) ? NULL : mt_query_text(trace, row, column);
}

static struct mt_run read_run(struct mt_trace *trace, const struct mt_statement *row)
{
    return (struct mt_run){
        .id = mt_statement_integer(row, 0),
        .name = text_or_null(trace, row, 1),
        .state = mt_query_text(trace, row, 2),
        .started_at = mt_query_text(trace, row, 3),
        .device = mt_query_text(trace, row, 4),
        .capacity_bytes = (uint64_t)mt_statement_integer(row, 5),
        .first_event = mt_statement_integer(row, 6),
        .event_count = mt_statement_integer(row, 7),
        .lost_events = mt_statement_integer(row, 8),
        .missing_records = mt_statement_integer(row, LAST_EVENT + 1),
        .rank = mt_statement_integer(row, LAST_EVENT + 2),
        .local_rank = mt_statement_integer(row, LAST_EVENT + 3),
        .world_size = mt_statement_integer(row, LAST_EVENT + 4),
        .host = text_or_null(trace, row, LAST_EVENT + 5),
        .job = text_or_null(trace, row, LAST_EVENT + 6),
        .pid = mt_statement_integer(row, LAST_EVENT + 7),
        .is_imported = mt_statement_integer(row, LAST_EVENT + 8) != 0,
        .ended_by = text_or_null(trace, row, LAST_EVENT + 9),
        .complete_from_bytes = mt_statement_integer(row, 9),
        .stall_count = mt_statement_integer(row, 10),
        .stall_ns = mt_statement_integer(row, 11),
        .steps = mt_statement_integer(row, 12),
        .last_full_step = mt_statement_is_null(row, 13) ? -1 : mt_statement_integer(row, 13),
    };
}

/* A row of table event takes more bytes of the file than this. */
enum { LEAST_EVENT_BYTES = 8 };

struct event_limits {
    int64_t last_event; /* the highest id in the trace, 0: none */
    int64_t most;       /* number of events that the file has room for */
};

static mt_status read_most_events(struct mt_trace *trace, struct event_limits *out)
{
    int64_t pages = 0, page_bytes = 0;
    mt_status status = mt_database_integer(trace->database, "PRAGMA page_count", &pages);
    MT_THEN(status, mt_database_integer(trace->database, "PRAGMA page_size", &page_bytes));
    out->most = pages * page_bytes / LEAST_EVENT_BYTES;
    return status;
}

/* Checks the run's range of events. Event ids are added to everywhere, and arrays have an element for each event. So
 * the range must end at the trace's last event or before, and have no more events than the file can hold. */
static mt_status check_run(const struct mt_trace *trace, const struct mt_run *run, const struct event_limits *limits)
{
    bool are_numbers = run->first_event >= 0 && run->event_count >= 0 && run->first_event <= MT_LAST_POSSIBLE_EVENT &&
                       run->event_count <= limits->most && limits->last_event <= MT_LAST_POSSIBLE_EVENT;
    if (are_numbers && (run->event_count == 0 || run->first_event + run->event_count - 1 <= limits->last_event))
        return MT_OK;
    return mt_fail(MT_BAD_TRACE,
                   "%s is damaged: run %" PRId64 " has %" PRId64 " events from event %" PRId64 ", and event %" PRId64
                   " is the last that there is, in a file with room for %" PRId64,
                   mt_database_path(trace->database), run->id, run->event_count, run->first_event, limits->last_event,
                   limits->most);
}

/* Runs with more events are not counted without checksums: a million takes some 30 ms. */
enum { MOST_COUNTED_EVENTS = 1 << 20 };

/* Fails if the run lacks events. Only where no checksums of pages tell: the file was changed by another program, or is
 * of an older memtrace. */
static mt_status check_events_are_there(struct mt_trace *trace, const struct mt_run *run)
{
    mt_status status = MT_OK;
    const mt_page_state pages = mt_page_file_state(mt_database_handle(trace->database));
    if (pages == MT_PAGES_CHECKED || (pages != MT_PAGES_CHANGED && run->event_count > MOST_COUNTED_EVENTS))
        return MT_OK;
    MT_EACH_ROW (row, status, trace->database, "SELECT count(*) FROM event NOT INDEXED WHERE id >= ?1 AND id < ?2",
                 MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)))
        if (mt_statement_integer(row, 0) != run->event_count)
            status =
                mt_fail(MT_BAD_TRACE, "%s is damaged: run %" PRId64 " has %" PRId64 " of its %" PRId64 " events",
                        mt_database_path(trace->database), run->id, mt_statement_integer(row, 0), run->event_count);
    return status;
}

static mt_status read_runs(struct mt_trace *trace)
{
    struct mt_statement *statement = NULL;
    struct event_limits limits = {0};
    mt_status status = read_most_events(trace, &limits);
    MT_THEN(status, mt_database_prepare(trace->database, runs_sql, &statement));
    while (mt_statement_next(statement, &status)) {
        struct mt_run *run = MT_HOST_ADD(trace->runs, trace->run_count);
        *run = read_run(trace, statement);
        limits.last_event = mt_statement_integer(statement, LAST_EVENT);
        status = check_run(trace, run, &limits);
        MT_THEN(status, check_events_are_there(trace, run));
    }
    mt_statement_finalize(statement);
    return status;
}

/* Reads all runs from one state of the file: another process may begin to write it just now. */
static mt_status load_runs(struct mt_trace *trace)
{
    MT_TRY(mt_database_begin_reading(trace->database));
    mt_status status = read_runs(trace);
    mt_database_end_reading(trace->database);
    return status;
}

mt_status mt_trace_open(const char *path, struct mt_trace **out)
{
    *out = NULL;
    struct mt_trace *trace = mt_host_alloc(sizeof *trace);
    trace->texts = mt_interner_create();
    mt_status status = mt_store_open_reading(path, &trace->database);
    MT_THEN(status, load_runs(trace));
    if (status != MT_OK) {
        mt_trace_close(trace);
        return status;
    }
    *out = trace;
    return MT_OK;
}

void mt_trace_close(struct mt_trace *trace)
{
    if (trace == NULL)
        return;
    mt_database_close(trace->database);
    mt_interner_destroy(trace->texts);
    free(trace->runs);
    free(trace);
}

uint64_t mt_run_start_us(const struct mt_run *run)
{
    struct tm utc = {0};
    const char *rest = strptime(run->started_at, "%Y-%m-%dT%H:%M:%S", &utc);
    time_t seconds = rest != NULL ? timegm(&utc) : -1;
    if (seconds < 0)
        return 0;
    unsigned long us = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;
    return (uint64_t)seconds * 1000000 + (us < 1000000 ? us : 0);
}

bool mt_run_is(const struct mt_run *run, mt_run_state state)
{
    return strcmp(run->state, mt_run_state_name(state)) == 0;
}

mt_status mt_query_fail_no_step(const struct mt_run *run, int64_t step)
{
    return mt_fail(MT_USAGE, "run %" PRId64 " has no step %" PRId64 ": it has %" PRId64 ", counted from 0", run->id,
                   step, run->steps);
}

mt_status mt_run_check_step(const struct mt_run *run, int64_t step)
{
    return step >= MT_ALL_STEPS && step < run->steps ? MT_OK : mt_query_fail_no_step(run, step);
}

const struct mt_run *mt_trace_runs(const struct mt_trace *trace, size_t *out_count)
{
    *out_count = trace->run_count;
    return trace->runs;
}

/* Returns the name of a run that is nearest to `which`; NULL if none is near. */
static const char *nearest_name(const struct mt_trace *trace, const char *which)
{
    const char **names = mt_host_alloc(trace->run_count * sizeof *names);
    size_t count = 0;
    for (size_t i = trace->run_count; i-- > 0;)
        if (trace->runs[i].name != NULL && trace->runs[i].name[0] != '\0')
            names[count++] = trace->runs[i].name;
    const char *nearest = mt_nearest(which, names, count);
    free(names);
    return nearest;
}

/* Fails with the nearest name and the first and last number: there may be hundreds of runs. */
static mt_status fail_no_such_run(const struct mt_trace *trace, const char *which)
{
    int64_t first = trace->runs[0].id, last = trace->runs[trace->run_count - 1].id;
    bool is_number = which[strspn(which, "0123456789")] == '\0';
    const char *nearest = is_number ? NULL : nearest_name(trace, which);
    struct mt_text text = {0};
    mt_text_add(&text, "there is no run \"%s\" in %s", which, mt_database_path(trace->database));
    if (nearest != NULL)
        mt_text_add(&text, "; did you mean \"%s\"?", nearest);
    mt_text_add(&text, nearest != NULL ? " There" : "; there");
    if (first == last)
        mt_text_add(&text, " is run %" PRId64, first);
    else
        mt_text_add(&text, " are runs %" PRId64 " to %" PRId64, first, last);
    mt_status status = mt_fail(MT_USAGE, "%s (memtrace runs lists them)", mt_text_get(&text));
    mt_text_release(&text);
    return status;
}

static const struct mt_run *find_number(const struct mt_trace *trace, const char *which)
{
    char *end;
    long long number = strtoll(which, &end, 10);
    for (size_t i = trace->run_count; i-- > 0 && *end == '\0';)
        if (trace->runs[i].id == number)
            return &trace->runs[i];
    return NULL;
}

static const struct mt_run *find_name(const struct mt_trace *trace, const char *which)
{
    for (size_t i = trace->run_count; i-- > 0;)
        if (trace->runs[i].name != NULL && strcmp(trace->runs[i].name, which) == 0)
            return &trace->runs[i];
    return NULL;
}

mt_status mt_trace_find_numbered(const struct mt_trace *trace, int64_t number, const struct mt_run **out)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, "%" PRId64, number);
    return mt_trace_find_run(trace, text, out);
}

/* True if an import was interrupted: nobody means its part of a run. */
static bool is_half_an_import(const struct mt_run *run)
{
    return run->is_imported &&
           (mt_run_is(run, MT_RUN_INTERRUPTED) || mt_run_is(run, MT_RUN_RUNNING) || mt_run_is(run, MT_RUN_DAMAGED));
}

/* Returns the newest run, whole imports and other runs first. */
static const struct mt_run *newest(const struct mt_trace *trace)
{
    for (size_t i = trace->run_count; i > 0; i--)
        if (!is_half_an_import(&trace->runs[i - 1]))
            return &trace->runs[i - 1];
    return &trace->runs[trace->run_count - 1];
}

mt_status mt_trace_find_run(const struct mt_trace *trace, const char *which, const struct mt_run **out)
{
    assert((trace->run_count == 0) == (trace->runs == NULL));
    if (trace->run_count == 0)
        return mt_fail(MT_USAGE, "%s holds no run yet: memtrace run adds one", mt_database_path(trace->database));
    const struct mt_run *run = which == NULL ? newest(trace) : find_number(trace, which);
    if (run == NULL)
        run = find_name(trace, which);
    if (run == NULL)
        return fail_no_such_run(trace, which);
    *out = run;
    return MT_OK;
}
