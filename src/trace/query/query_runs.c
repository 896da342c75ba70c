/* Which runs are there? And which of them is meant? */
#include "base/memory.h"
#include "base/text.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char runs_sql[] =
    "SELECT id, name, state, started_at, device, capacity_bytes, first_event, event_count, lost_events,"
    " complete_from_bytes, stall_count, stall_ns, (SELECT count(*) FROM step WHERE step.run = run.id),"
    " (SELECT max(number) FROM step WHERE step.run = run.id AND last_event IS NOT NULL),"
    " (SELECT max(id) FROM event) FROM run ORDER BY id";

enum { LAST_EVENT = 14 }; /* the column of the trace's last event */

static struct mt_run read_run(struct mt_trace *trace, const struct mt_statement *row)
{
    return (struct mt_run){
        .id = mt_statement_integer(row, 0),
        .name = mt_statement_is_null(row, 1) ? NULL : mt_query_text(trace, row, 1),
        .state = mt_query_text(trace, row, 2),
        .started_at = mt_query_text(trace, row, 3),
        .device = mt_query_text(trace, row, 4),
        .capacity_bytes = (uint64_t)mt_statement_integer(row, 5),
        .first_event = mt_statement_integer(row, 6),
        .event_count = mt_statement_integer(row, 7),
        .lost_events = mt_statement_integer(row, 8),
        .complete_from_bytes = mt_statement_integer(row, 9),
        .stall_count = mt_statement_integer(row, 10),
        .stall_ns = mt_statement_integer(row, 11),
        .steps = mt_statement_integer(row, 12),
        .last_full_step = mt_statement_is_null(row, 13) ? -1 : mt_statement_integer(row, 13),
    };
}

/* A row of table event takes more than that of the file, whatever its id is. */
enum { LEAST_EVENT_BYTES = 8 };

struct event_limits {
    int64_t last_event; /* that there is, 0: none */
    int64_t most;       /* as many as the file has room for */
};

static mt_status read_most_events(struct mt_trace *trace, struct event_limits *out)
{
    int64_t pages = 0, page_bytes = 0;
    mt_status status = mt_database_integer(trace->database, "PRAGMA page_count", &pages);
    if (status == MT_OK)
        status = mt_database_integer(trace->database, "PRAGMA page_size", &page_bytes);
    out->most = pages * page_bytes / LEAST_EVENT_BYTES;
    return status;
}

/* Event ids are added up everywhere, and arrays are as long as a run has events: those of a run must be numbers, none lies
 * beyond the last event that there is, and there are no more than the file can hold. */
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

static mt_status load_runs(struct mt_trace *trace)
{
    struct mt_statement *statement = NULL;
    struct event_limits limits = {0};
    mt_status status = read_most_events(trace, &limits);
    if (status == MT_OK)
        status = mt_database_prepare(trace->database, runs_sql, &statement);
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row) {
        trace->runs = mt_host_room(trace->runs, trace->run_count, sizeof *trace->runs);
        trace->runs[trace->run_count] = read_run(trace, statement);
        limits.last_event = mt_statement_integer(statement, LAST_EVENT);
        status = check_run(trace, &trace->runs[trace->run_count++], &limits);
    }
    mt_statement_finalize(statement);
    return status;
}

/* Of one state of the file: somebody may begin to write it just now. */
mt_status mt_query_load_runs(struct mt_trace *trace)
{
    mt_status status = mt_database_begin_reading(trace->database);
    if (status != MT_OK)
        return status;
    status = load_runs(trace);
    mt_database_end_reading(trace->database);
    return status;
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

/* The names of the runs, which they need not have: the nearest is what may have been meant. */
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

/* No number is near another one, and a list of hundreds of runs would help nobody. */
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

mt_status mt_trace_find_run(const struct mt_trace *trace, const char *which, const struct mt_run **out)
{
    if (trace->run_count == 0)
        return mt_fail(MT_USAGE, "%s holds no run yet: memtrace run adds one", mt_database_path(trace->database));
    const struct mt_run *run = which == NULL ? &trace->runs[trace->run_count - 1] : find_number(trace, which);
    if (run == NULL)
        run = find_name(trace, which);
    if (run == NULL)
        return fail_no_such_run(trace, which);
    *out = run;
    return MT_OK;
}
