/* When was each event? */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <stdlib.h>

/* Invariant: times[0..filled) are told, and the last of them is `last`. */
struct time_list {
    uint64_t *times, last;
    size_t count, filled;
    int64_t first_event;
};

enum { ID, TIME_NS };

/* What has no row keeps the time before it. */
static void fill_up_to(struct time_list *list, size_t index)
{
    while (list->filled < index)
        list->times[list->filled++] = list->last;
}

static mt_status tell_time(void *context, const struct mt_row *row)
{
    struct time_list *list = context;
    fill_up_to(list, (size_t)(mt_row_integer(row, ID) - list->first_event));
    mt_status status = mt_query_row_natural(row, TIME_NS, &list->last);
    list->times[list->filled++] = list->last;
    return status;
}

/* Rows come in the order of their ids, which is the table's own. */
static mt_status read_times(struct mt_trace *trace, const struct mt_run *run, const struct mt_row_visitor *tells,
                            const struct time_list *list)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run,
                                        "SELECT tells(id, time_ns) FROM event NOT INDEXED"
                                        " WHERE ?1 = ?1 AND id >= ?2 AND id <= ?3",
                                        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, list->first_event);
    mt_statement_bind_integer(statement, 3, list->first_event + (int64_t)list->count - 1);
    status = mt_statement_run(statement);
    mt_statement_finalize(statement);
    return mt_status_keep(status, tells->status);
}

mt_status mt_trace_times(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                         uint64_t **out_times)
{
    struct time_list list = {.first_event = first_event,
                             .count = last_event >= first_event ? (size_t)(last_event - first_event + 1) : 0};
    struct mt_row_visitor tells = {.name = "tells", .visit = tell_time, .context = &list};
    list.times = mt_host_alloc(list.count * sizeof *list.times + 1);
    mt_status status = mt_row_visitor_add(trace->database, &tells);
    if (status == MT_OK)
        status = read_times(trace, run, &tells, &list);
    mt_row_visitor_remove(trace->database, &tells);
    fill_up_to(&list, list.count);
    if (status != MT_OK) {
        free(list.times);
        list.times = NULL;
    }
    *out_times = list.times;
    return status;
}
