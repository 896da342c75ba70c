/* When was each event? */
#include "base/memory.h"
#include "trace/blocks.h"
#include "trace/query/query.h"

#include <stdlib.h>

/* Fills times[0..count) from the rows of the statement; what has no row keeps the time before it. */
static mt_status read_times(struct mt_statement *statement, int64_t first_event, uint64_t *times, size_t count)
{
    uint64_t last = 0;
    size_t filled = 0;
    bool row;
    mt_status status;
    while ((status = mt_statement_step(statement, &row)) == MT_OK && row) {
        size_t index = (size_t)(mt_statement_integer(statement, 0) - first_event);
        while (filled < index)
            times[filled++] = last;
        if ((status = mt_query_natural(statement, 1, &last)) != MT_OK)
            break;
        times[filled++] = last;
    }
    while (filled < count)
        times[filled++] = last;
    return status;
}

mt_status mt_trace_times(struct mt_trace *trace, const struct mt_run *run, int64_t first_event, int64_t last_event,
                         uint64_t **out_times)
{
    struct mt_statement *statement;
    size_t count = last_event >= first_event ? (size_t)(last_event - first_event + 1) : 0;
    *out_times = NULL;
    mt_status status = mt_query_prepare(
        trace, run, "SELECT id, time_ns FROM event WHERE ?1 = ?1 AND id >= ?2 AND id <= ?3 ORDER BY id", &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, first_event);
    mt_statement_bind_integer(statement, 3, last_event);
    *out_times = mt_host_alloc(count * sizeof **out_times + 1);
    status = read_times(statement, first_event, *out_times, count);
    mt_statement_finalize(statement);
    if (status == MT_OK)
        return MT_OK;
    free(*out_times);
    *out_times = NULL;
    return status;
}
