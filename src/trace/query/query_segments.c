/* Queries about the memory that the allocator took from the device: segments, the parts of them that had memory, and
 * the segments that grew or shrank. */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>

struct segment_list {
    struct mt_trace *trace;
    struct mt_segment_row *rows;
    size_t count;
};

/* The event ids of a run, as of the opening: first <= id < end. */
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
    MT_TRY(check_segment(row, range, list->count));
    MT_TRY(mt_query_natural(row, 3, &bytes));
    int64_t mapped = mt_statement_integer(row, 4), unmapped = mt_statement_integer(row, 5);
    list->rows = mt_host_room(list->rows, list->count, sizeof *list->rows);
    list->rows[list->count] =
        (struct mt_segment_row){.number = (uint32_t)list->count,
                                .stream = (mt_stream)mt_statement_integer(row, 1),
                                .address = (uint64_t)mt_statement_integer(row, 2),
                                .bytes = bytes,
                                .mapped_event = mapped,
                                .unmapped_event = unmapped > mapped && unmapped < range->end ? unmapped : 0,
                                .pool = mt_query_text(list->trace, row, 6)};
    list->count++;
    assert(list->rows[list->count - 1].number + 1 == list->count);
    return MT_OK;
}

mt_status mt_trace_segments(struct mt_trace *trace, const struct mt_run *run, struct mt_segment_row **out_rows,
                            size_t *out_count)
{
    struct segment_list list = {.trace = trace};
    struct range range = {run->first_event, mt_query_end(run)};
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT id, stream, address, bytes, mapped_event, unmapped_event, (SELECT value FROM setting"
                 " WHERE setting.run = ?1 AND name = 'stream ' || stream) FROM segment"
                 " WHERE run = ?1 AND mapped_event < ?2 ORDER BY id",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(range.end))
        status = add_segment(row, &range, &list);
    return mt_query_hand_over(status, list.rows, list.count, out_rows, out_count);
}

/* Rows under way. Invariant: total_bytes is the sum of their bytes. */
struct part_list {
    struct mt_part_row *rows;
    size_t count;
    uint64_t total_bytes;
    struct mt_number_limits limits;
    struct range range;
};

enum { SEGMENT, OFFSET, MAPPED, BYTES, UNMAPPED };

static mt_status check_part(const struct part_list *list, const struct mt_statement *row)
{
    int64_t segment = mt_statement_integer(row, SEGMENT), mapped = mt_statement_integer(row, MAPPED);
    if (segment < 0 || segment >= list->limits.segments)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: it has a part of segment %" PRId64 " of %u", segment,
                       list->limits.segments);
    if (mapped < list->range.first)
        return mt_fail(MT_BAD_TRACE,
                       "the trace is damaged: event %" PRId64 ", before its run, mapped a part of segment %" PRId64,
                       mapped, segment);
    return MT_OK;
}

static mt_status read_size(const struct mt_statement *row, struct part_list *list, struct mt_part_row *part)
{
    MT_TRY(mt_query_natural(row, OFFSET, &part->offset));
    MT_TRY(mt_query_natural(row, BYTES, &part->bytes));
    if (part->bytes > INT64_MAX - list->total_bytes || part->bytes > INT64_MAX - part->offset)
        return mt_fail(MT_BAD_TRACE,
                       "the trace is damaged: the parts of its segments up to segment %" PRIu32
                       " sum, or reach, to 2^63 bytes or more",
                       part->segment);
    list->total_bytes += part->bytes;
    assert(list->total_bytes <= INT64_MAX);
    return MT_OK;
}

static mt_status add_part(const struct mt_statement *row, struct part_list *list)
{
    MT_TRY(check_part(list, row));
    int64_t mapped = mt_statement_integer(row, MAPPED), unmapped = mt_statement_integer(row, UNMAPPED);
    struct mt_part_row part = {.segment = (uint32_t)mt_statement_integer(row, SEGMENT),
                               .mapped_event = mapped,
                               .unmapped_event = unmapped > mapped && unmapped < list->range.end ? unmapped : 0};
    MT_TRY(read_size(row, list, &part));
    *MT_HOST_ADD(list->rows, list->count) = part;
    return MT_OK;
}

mt_status mt_trace_parts(struct mt_trace *trace, const struct mt_run *run, struct mt_part_row **out_rows,
                         size_t *out_count)
{
    struct part_list list = {.range = {run->first_event, mt_query_end(run)}};
    mt_status status = mt_query_number_limits(trace, run, &list.limits);
    if (status != MT_OK)
        return mt_query_hand_over(status, NULL, 0, out_rows, out_count);
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT segment, offset, mapped_event, bytes, unmapped_event FROM segment_part"
                 " WHERE run = ?1 AND mapped_event < ?2 ORDER BY segment, offset, mapped_event",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(list.range.end))
        status = add_part(row, &list);
    return mt_query_hand_over(status, list.rows, list.count, out_rows, out_count);
}

mt_status mt_trace_growing_segments(struct mt_trace *trace, const struct mt_run *run, uint32_t **out_numbers,
                                    size_t *out_count)
{
    uint32_t *numbers = NULL;
    size_t count = 0;
    /* A segment that was mapped and unmapped as a whole is one part, at its beginning. */
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT segment FROM segment_part WHERE run = ?1"
                 " GROUP BY segment HAVING count(*) > 1 OR max(offset) > 0 ORDER BY segment",
                 MT_BIND_INTEGER(run->id))
        *MT_HOST_ADD(numbers, count) = (uint32_t)mt_statement_integer(row, 0);
    return mt_query_hand_over(status, numbers, count, out_numbers, out_count);
}
