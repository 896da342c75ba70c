/* Which parts of segments had memory, and from when to when? */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>

/* Rows under way. Invariant: total_bytes is the sum of their bytes. */
struct part_list {
    struct mt_part_row *rows;
    size_t count;
    uint64_t total_bytes;
    struct mt_number_limits limits;
    int64_t first, end; /* event ids of the run, as it was when the trace was opened: first <= id < end */
};

enum { SEGMENT, OFFSET, MAPPED, BYTES, UNMAPPED };

static mt_status check_part(const struct part_list *list, const struct mt_statement *row)
{
    int64_t segment = mt_statement_integer(row, SEGMENT), mapped = mt_statement_integer(row, MAPPED);
    if (segment < 0 || segment >= list->limits.segments)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: it has a part of segment %" PRId64 " of %u", segment,
                       list->limits.segments);
    if (mapped < list->first)
        return mt_fail(MT_BAD_TRACE,
                       "the trace is damaged: event %" PRId64 ", before its run, mapped a part of segment %" PRId64,
                       mapped, segment);
    return MT_OK;
}

static mt_status read_size(const struct mt_statement *row, struct part_list *list, struct mt_part_row *part)
{
    mt_status status = mt_query_natural(row, OFFSET, &part->offset);
    if (status == MT_OK)
        status = mt_query_natural(row, BYTES, &part->bytes);
    if (status != MT_OK)
        return status;
    if (part->bytes > INT64_MAX - list->total_bytes || part->bytes > INT64_MAX - part->offset)
        return mt_fail(MT_BAD_TRACE,
                       "the trace is damaged: the parts of its segments up to segment %" PRIu32
                       " sum, or reach, to 2^63 bytes or more",
                       part->segment);
    list->total_bytes += part->bytes;
    return MT_OK;
}

static mt_status add_part(const struct mt_statement *row, struct part_list *list)
{
    mt_status status = check_part(list, row);
    if (status != MT_OK)
        return status;
    int64_t mapped = mt_statement_integer(row, MAPPED), unmapped = mt_statement_integer(row, UNMAPPED);
    struct mt_part_row part = {.segment = (uint32_t)mt_statement_integer(row, SEGMENT),
                               .mapped_event = mapped,
                               .unmapped_event = unmapped > mapped && unmapped < list->end ? unmapped : 0};
    status = read_size(row, list, &part);
    if (status != MT_OK)
        return status;
    list->rows = mt_host_room(list->rows, list->count, sizeof *list->rows);
    list->rows[list->count++] = part;
    return MT_OK;
}

static mt_status read_parts(struct mt_trace *trace, const struct mt_run *run, struct part_list *list)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run,
                                        "SELECT segment, offset, mapped_event, bytes, unmapped_event FROM segment_part"
                                        " WHERE run = ?1 AND mapped_event < ?2 ORDER BY segment, offset, mapped_event",
                                        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, list->end);
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row)
        status = add_part(statement, list);
    mt_statement_finalize(statement);
    return status;
}

mt_status mt_trace_parts(struct mt_trace *trace, const struct mt_run *run, struct mt_part_row **out_rows,
                         size_t *out_count)
{
    struct part_list list = {.first = run->first_event, .end = run->first_event + run->event_count};
    mt_status status = mt_query_number_limits(trace, run, &list.limits);
    if (status == MT_OK)
        status = read_parts(trace, run, &list);
    if (status != MT_OK) {
        free(list.rows);
        list = (struct part_list){0};
    }
    *out_rows = list.rows;
    *out_count = list.count;
    return status;
}
