/* What did the allocator take from the device, and when did it give it back? */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>

struct segment_list {
    struct mt_segment_row *rows;
    size_t count;
};

/* Event ids of a run, as it was when the trace was opened: first <= id < end. */
struct range {
    int64_t first, end;
};

static mt_status check_segment(const struct mt_statement *row, const struct range *range, size_t expected)
{
    int64_t number = mt_statement_integer(row, 0), stream = mt_statement_integer(row, 1);
    int64_t mapped = mt_statement_integer(row, 4);
    if (number != (int64_t)expected)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: segment %" PRId64 " comes where %zu is expected", number,
                       expected);
    if (stream < 0 || stream > UINT16_MAX)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: segment %" PRId64 " has stream %" PRId64, number, stream);
    if (mapped < range->first)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 ", before its run, mapped segment %" PRId64,
                       mapped, number);
    return MT_OK;
}

static mt_status add_segment(const struct mt_statement *row, const struct range *range, struct segment_list *list)
{
    uint64_t bytes = 0;
    mt_status status = check_segment(row, range, list->count);
    if (status == MT_OK)
        status = mt_query_natural(row, 3, &bytes);
    if (status != MT_OK)
        return status;
    int64_t mapped = mt_statement_integer(row, 4), unmapped = mt_statement_integer(row, 5);
    list->rows = mt_host_room(list->rows, list->count, sizeof *list->rows);
    list->rows[list->count] =
        (struct mt_segment_row){.number = (uint32_t)list->count,
                                .stream = (mt_stream)mt_statement_integer(row, 1),
                                .address = (uint64_t)mt_statement_integer(row, 2),
                                .bytes = bytes,
                                .mapped_event = mapped,
                                .unmapped_event = unmapped > mapped && unmapped < range->end ? unmapped : 0};
    list->count++;
    return MT_OK;
}

mt_status mt_trace_segments(struct mt_trace *trace, const struct mt_run *run, struct mt_segment_row **out_rows,
                            size_t *out_count)
{
    *out_rows = NULL;
    *out_count = 0;
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run,
                                        "SELECT id, stream, address, bytes, mapped_event, unmapped_event FROM segment"
                                        " WHERE run = ?1 AND mapped_event < ?2 ORDER BY id",
                                        &statement);
    if (status != MT_OK)
        return status;
    struct segment_list list = {0};
    struct range range = {run->first_event, run->first_event + run->event_count};
    mt_statement_bind_integer(statement, 2, range.end);
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row)
        status = add_segment(statement, &range, &list);
    mt_statement_finalize(statement);
    if (status != MT_OK) {
        free(list.rows);
        return status;
    }
    *out_rows = list.rows;
    *out_count = list.count;
    return MT_OK;
}
