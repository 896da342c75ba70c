/* Queries about events: look-ups around single ones; and in order, allocations and frees, the time of each event, and
 * marks, which are steps, phases, spans and refused requests.
 *
 * A third of all events are marks, and spans are few: each span's path is read once, and a mark finds it by its
 * number. */
#include "base/memory.h"
#include "base/number_map.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>

mt_status mt_trace_step_events(struct mt_trace *trace, const struct mt_run *run, int64_t step, int64_t *out_first,
                               int64_t *out_last)
{
    mt_status status = MT_OK;
    bool is_found = false;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT first_event, last_event FROM step WHERE run = ?1 AND number = ?2", MT_BIND_INTEGER(run->id),
                 MT_BIND_INTEGER(step)) {
        is_found = true;
        *out_first = mt_statement_integer(row, 0);
        *out_last = mt_statement_is_null(row, 1) ? mt_query_end(run) - 1 : mt_statement_integer(row, 1);
    }
    return status == MT_OK && !is_found ? mt_query_fail_no_step(run, step) : status;
}

mt_status mt_trace_step_of(struct mt_trace *trace, const struct mt_run *run, int64_t event, int64_t *out_step)
{
    /* The step before the first that began later: events of early steps, which most queries are about, are found at
     * once. */
    mt_status status = MT_OK;
    *out_step = MT_STEP_BEFORE;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT max(number) FROM step WHERE run = ?1 AND number < ifnull((SELECT number"
                 " FROM step WHERE run = ?1 AND first_event > ?2 ORDER BY number LIMIT 1), ?3)",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(event), MT_BIND_INTEGER(INT64_MAX))
        if (!mt_statement_is_null(row, 0))
            *out_step = mt_statement_integer(row, 0);
    return status;
}

mt_status mt_trace_request_after(struct mt_trace *trace, const struct mt_run *run, int64_t event, uint64_t *out_bytes)
{
    mt_status status = MT_OK;
    *out_bytes = 0;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT kind, requested_bytes FROM event NOT INDEXED WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT 1",
                 MT_BIND_INTEGER(event), MT_BIND_INTEGER(mt_query_end(run)))
        if (mt_statement_integer(row, 0) == MT_EVENT_ALLOC)
            status = mt_query_natural(row, 1, out_bytes);
    return status;
}

mt_status mt_trace_next_event(struct mt_trace *trace, const struct mt_run *run, int64_t first, mt_event_kind kind,
                              mt_phase phase, int64_t *out_event)
{
    mt_status status = MT_OK;
    *out_event = 0;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT id FROM event NOT INDEXED WHERE id >= ?1 AND id < ?2 AND kind = ?3"
                 " AND (requested_bytes = ?4 OR ?4 = ?5) ORDER BY id LIMIT 1",
                 MT_BIND_INTEGER(first), MT_BIND_INTEGER(mt_query_end(run)), MT_BIND_INTEGER(kind),
                 MT_BIND_INTEGER(phase), MT_BIND_INTEGER(MT_PHASE_COUNT))
        *out_event = mt_statement_integer(row, 0);
    return status;
}

mt_status mt_trace_phase_of_free(struct mt_trace *trace, const struct mt_run *run, const struct mt_free_search *search,
                                 const char **out_phase)
{
    mt_status status = MT_OK;
    int64_t phase = -1;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT requested_bytes FROM event NOT INDEXED WHERE ?1 = ?1 AND kind = ?7 AND id >= ?4 AND id <"
                 " (SELECT id FROM event NOT INDEXED WHERE id > ?3 AND id <= ?5 AND kind = ?6 AND allocation = ?2 "
                 "ORDER BY id LIMIT 1)"
                 " ORDER BY id DESC LIMIT 1",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(search->alloc_event), MT_BIND_INTEGER(search->event),
                 MT_BIND_INTEGER(search->first), MT_BIND_INTEGER(search->last), MT_BIND_INTEGER(MT_EVENT_FREE),
                 MT_BIND_INTEGER(MT_EVENT_PHASE))
        phase = mt_statement_integer(row, 0);
    *out_phase = phase >= 0 && phase < MT_PHASE_COUNT ? mt_phase_name((mt_phase)phase) : "";
    return status;
}

static struct mt_event_row read_event(const struct mt_statement *row, int64_t n, int64_t first_event)
{
    mt_event_kind kind = (mt_event_kind)mt_statement_integer(row, 1);
    bool is_alloc = kind == MT_EVENT_ALLOC;
    return (struct mt_event_row){
        .n = n,
        .action = mt_event_kind_name(kind),
        .id = is_alloc || !mt_statement_is_null(row, 2)
                  ? mt_query_position(mt_statement_integer(row, is_alloc ? 0 : 2), first_event)
                  : -1,
        .bytes = (uint64_t)mt_statement_integer(row, 3),
        .category = mt_statement_text(row, 4),
        .op = mt_statement_text(row, 5),
        .phase = mt_statement_text(row, 6),
        .span = mt_statement_text(row, 7),
        .role = mt_statement_text(row, 8),
        .time_ns = (uint64_t)mt_statement_integer(row, 9),
        .block_bytes = (uint64_t)mt_statement_integer(row, 10),
        .stream = (mt_stream)mt_statement_integer(row, 11),
        .stack = is_alloc ? (uint32_t)mt_statement_integer(row, 12) : 0,
    };
}

mt_status mt_trace_events(struct mt_trace *trace, const struct mt_run *run, int64_t step,
                          const struct mt_event_visitor *visitor)
{
    int64_t first = run->first_event, last = mt_query_end(run) - 1;
    MT_TRY(step == MT_ALL_STEPS ? MT_OK : mt_trace_step_events(trace, run, step, &first, &last));
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT event.id, kind, allocation, requested_bytes, ifnull(label.category, ''), ifnull(label.op, ''),"
        " ifnull(label.phase, ''), ifnull(span.path, ''), ifnull(label.role, ''), time_ns, block_bytes, stream,"
        " event.stack FROM "
        "event NOT INDEXED" MT_EVENT_LABEL_JOIN "WHERE event.id >= ?2 AND event.id <= ?3 AND kind IN (?4, ?5, ?6)"
        " ORDER BY event.id",
        &statement);
    MT_QUERY_BIND(statement, first, last, MT_EVENT_ALLOC, MT_EVENT_FREE, MT_EVENT_RELABEL);
    MT_THEN(status, visitor->begin(visitor->context));
    for (int64_t n = 0; mt_statement_next(statement, &status); n++) {
        struct mt_event_row event = read_event(statement, n, run->first_event);
        status = visitor->visit(visitor->context, &event);
    }
    mt_statement_finalize(statement);
    return status;
}

/* Marks under way. `paths` maps the number of a span to its path, a kept text. */
struct mark_list {
    struct mt_mark_row *rows;
    size_t count;
    struct mt_number_limits limits;
    struct mt_number_map paths;
};

/* The kinds that are marks are consecutive. */
enum { FIRST_MARK = MT_EVENT_OOM, LAST_MARK = MT_EVENT_PHASE };

/* An event's own span takes precedence over its label's. */
#define MARK_COLUMNS                                                                                                   \
    "id, time_ns, kind, requested_bytes, label, stream,"                                                               \
    " coalesce(span, (SELECT label.span FROM label WHERE label.run = ?1 AND label.id = event.label))"
enum { MARK_ID, MARK_NS, MARK_KIND, MARK_VALUE, MARK_LABEL, MARK_STREAM, MARK_SPAN };

static const char *path_of(const struct mark_list *list, int64_t span)
{
    uint64_t path = (uintptr_t) "";
    mt_number_map_get(&list->paths, (uint64_t)span, &path);
    return (const char *)(uintptr_t)path;
}

/* Fails if a damaged trace gives the mark a label or phase that does not exist. */
static mt_status check_mark(const struct mt_mark_row *mark, int64_t label, const struct mt_number_limits *limits)
{
    if (label < 0 || label >= limits->labels)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " has label %" PRId64 ", of %" PRIu32,
                       mark->event, label, limits->labels);
    if (mark->kind == MT_EVENT_PHASE && mark->value >= MT_PHASE_COUNT)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " begins phase %" PRIu64 ", of %d",
                       mark->event, mark->value, MT_PHASE_COUNT);
    return MT_OK;
}

static mt_status read_mark(const struct mt_row *row, const struct mark_list *list, struct mt_mark_row *out)
{
    int64_t label = mt_row_integer(row, MARK_LABEL);
    *out = (struct mt_mark_row){.event = mt_row_integer(row, MARK_ID),
                                .kind = (mt_event_kind)mt_row_integer(row, MARK_KIND),
                                .span = path_of(list, mt_row_integer(row, MARK_SPAN)),
                                .label = (uint32_t)label,
                                .stream = (mt_stream)mt_row_integer(row, MARK_STREAM)};
    MT_TRY(mt_query_row_natural(row, MARK_NS, &out->time_ns));
    MT_TRY(mt_query_row_natural(row, MARK_VALUE, &out->value));
    return check_mark(out, label, &list->limits);
}

static mt_status add_mark(void *context, const struct mt_row *row)
{
    struct mark_list *list = context;
    struct mt_mark_row mark;
    MT_TRY(read_mark(row, list, &mark));
    *MT_HOST_ADD(list->rows, list->count) = mark;
    return MT_OK;
}

static mt_status read_paths(struct mt_trace *trace, const struct mt_run *run, struct mark_list *list)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database, "SELECT id, path FROM span WHERE run = ?1", MT_BIND_INTEGER(run->id))
        mt_number_map_put(&list->paths, (uint64_t)mt_statement_integer(row, 0),
                          (uintptr_t)mt_query_text(trace, row, 1));
    return status;
}

/* Adds the visitors; without the rest after a failure. */
static mt_status add_visitors(struct mt_trace *trace, struct mt_row_visitor *visitors, size_t count)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = mt_row_visitor_add(trace->database, &visitors[i]);
    return status;
}

/* Runs a statement that names the visitors, with ?2, ?3, … bound to the values. */
static mt_status run_statement(struct mt_trace *trace, const struct mt_run *run, const char *sql, const int64_t *values,
                               int value_count)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run, sql, &statement);
    mt_statement_bind_integers(statement, 2, values, value_count);
    MT_THEN(status, mt_statement_run(statement));
    mt_statement_finalize(statement);
    return status;
}

struct visit {
    const char *sql;
    const int64_t *values; /* of ?2, ?3, … */
    int value_count;
    struct mt_row_visitor *visitors;
    size_t visitor_count;
};

static mt_status visit_rows(struct mt_trace *trace, const struct mt_run *run, const struct visit *visit)
{
    mt_status status = add_visitors(trace, visit->visitors, visit->visitor_count);
    MT_THEN(status, run_statement(trace, run, visit->sql, visit->values, visit->value_count));
    for (size_t i = 0; i < visit->visitor_count; i++) {
        mt_row_visitor_remove(trace->database, &visit->visitors[i]);
        status = mt_status_keep(status, visit->visitors[i].status);
    }
    return status;
}

/* Reads what marks refer to. Release list->paths in any case. */
static mt_status begin_marks(struct mt_trace *trace, const struct mt_run *run, struct mark_list *list)
{
    mt_number_map_create(&list->paths);
    MT_TRY(mt_query_number_limits(trace, run, &list->limits));
    return read_paths(trace, run, list);
}

/* The rows are in the table's own order, which is that of its ids. */
#define SELECT_MARKS "add_mark(" MARK_COLUMNS ") FILTER (WHERE kind BETWEEN ?4 AND ?5)"
#define FROM_EVENTS " FROM event NOT INDEXED WHERE id >= ?2 AND id <= ?3"

mt_status mt_trace_marks(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                         struct mt_mark_row **out_rows, size_t *out_count)
{
    int64_t end = mt_query_end(run);
    const int64_t values[] = {first_event < run->first_event ? run->first_event : first_event,
                              last_event >= end ? end - 1 : last_event, FIRST_MARK, LAST_MARK};
    struct mark_list list = {0};
    struct mt_row_visitor visitor = {.name = "add_mark", .visit = add_mark, .context = &list};
    const struct visit visit = {"SELECT " SELECT_MARKS FROM_EVENTS, values, 4, &visitor, 1};
    mt_status status = begin_marks(trace, run, &list);
    MT_THEN(status, visit_rows(trace, run, &visit));
    mt_number_map_release(&list.paths);
    return mt_query_hand_over(status, list.rows, list.count, out_rows, out_count);
}

/* ---- all events ---- */

/* Moments under way. Invariants: `visited` times were passed on, and the last of them is `last`; visited <= count. */
struct moment_walk {
    const struct mt_moment_visitor *visitor;
    struct mark_list marks; /* without rows */
    int64_t first_event;
    size_t count, visited;
    uint64_t last;
};

enum { TIME_ID, TIME_NS };

/* Gives events without a row the time before them. */
static void visit_up_to(struct moment_walk *walk, size_t index)
{
    assert(index <= walk->count);
    for (; walk->visited < index; walk->visited++)
        walk->visitor->time(walk->visitor->context, walk->last);
}

static mt_status visit_time(void *context, const struct mt_row *row)
{
    struct moment_walk *walk = context;
    int64_t event = mt_row_integer(row, TIME_ID);
    size_t index = (size_t)(event - walk->first_event);
    if (index < walk->visited)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " does not come in its order", event);
    visit_up_to(walk, index);
    mt_status status = mt_query_row_natural(row, TIME_NS, &walk->last);
    visit_up_to(walk, index + 1);
    return status;
}

static mt_status visit_mark(void *context, const struct mt_row *row)
{
    struct moment_walk *walk = context;
    struct mt_mark_row mark;
    MT_TRY(read_mark(row, &walk->marks, &mark));
    walk->visitor->mark(walk->visitor->context, &mark);
    return MT_OK;
}

mt_status mt_trace_moments_visit(struct mt_trace *trace, const struct mt_run *run,
                                 const struct mt_moment_visitor *visitor)
{
    const int64_t values[] = {run->first_event, mt_query_end(run) - 1, FIRST_MARK, LAST_MARK};
    struct moment_walk walk = {.visitor = visitor, .first_event = run->first_event, .count = (size_t)run->event_count};
    struct mt_row_visitor visitors[] = {{.name = "add_time", .visit = visit_time, .context = &walk},
                                        {.name = "add_mark", .visit = visit_mark, .context = &walk}};
    const struct visit visit = {"SELECT add_time(id, time_ns), " SELECT_MARKS FROM_EVENTS, values, 4, visitors, 2};
    mt_status status = begin_marks(trace, run, &walk.marks);
    MT_THEN(status, visit_rows(trace, run, &visit));
    if (status == MT_OK)
        visit_up_to(&walk, walk.count);
    mt_number_map_release(&walk.marks.paths);
    return status;
}
