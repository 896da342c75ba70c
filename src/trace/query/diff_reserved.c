/* What was free when a run took its last segment, and why it took it.
 *
 * A segment is taken for a block that comes directly after it and that none of the holes could serve:
 *
 *   segment 0  [block][hole     ][block]
 *   segment 1  [block][block][hole]
 *   segment 2  taken at the peak: [the block that was asked for][…]                 its own rest is no hole yet */
#include "trace/query/diff_reserved.h"

#include "trace/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>

/* The block that the segment of event `mapped` was taken for: the next thing that happened. 0 if it never came. */
static mt_status read_asked(const struct mt_diff_run *at, int64_t mapped, uint64_t *out_bytes)
{
    *out_bytes = 0;
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        at->trace, at->run,
        "SELECT kind, requested_bytes FROM event WHERE ?1 = ?1 AND id > ?2 AND id < ?3 ORDER BY id LIMIT 1",
        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, mapped);
    mt_statement_bind_integer(statement, 3, at->run->first_event + at->run->event_count);
    bool row;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row && mt_statement_integer(statement, 0) == MT_EVENT_ALLOC)
        status = mt_query_natural(statement, 1, out_bytes);
    mt_statement_finalize(statement);
    return status;
}

static int compare_places(const void *left, const void *right)
{
    const struct mt_block_row *a = left, *b = right;
    if (a->segment != b->segment)
        return a->segment < b->segment ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static void add_hole(struct mt_diff_side *side, uint64_t bytes)
{
    side->holes++;
    side->free_bytes += bytes;
    side->widest_hole = bytes > side->widest_hole ? bytes : side->widest_hole;
}

/* The holes of one segment between its blocks, which lie at blocks[0..count) in order. */
static void measure_segment(struct mt_diff_side *side, uint64_t segment_bytes, const struct mt_block_row *blocks,
                            size_t count)
{
    uint64_t end = 0;
    side->idle_bytes += count == 0 ? segment_bytes : 0;
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].offset > end)
            add_hole(side, blocks[i].offset - end);
        end = blocks[i].offset + blocks[i].block_bytes;
    }
    if (segment_bytes > end)
        add_hole(side, segment_bytes - end);
}

/* Of the segments that were there before event `mapped`. */
static void measure_holes(struct mt_diff_side *side, int64_t mapped, const struct mt_segment_row *segments,
                          size_t segment_count, struct mt_block_row *blocks, size_t block_count)
{
    if (block_count > 1)
        qsort(blocks, block_count, sizeof *blocks, compare_places);
    size_t begin = 0, end;
    for (size_t i = 0; i < segment_count; i++, begin = end) {
        const struct mt_segment_row *segment = &segments[i];
        for (end = begin; end < block_count && blocks[end].segment <= segment->number; end++)
            ;
        bool is_there =
            segment->mapped_event < mapped && (segment->unmapped_event == 0 || segment->unmapped_event > mapped);
        if (segment->mapped_event == mapped)
            side->segment_bytes += segment->bytes;
        if (is_there)
            measure_segment(side, segment->bytes, &blocks[begin], end - begin);
    }
}

/* Whether the segments are those of the peak, and the blocks lie in them beside each other. */
static mt_status check_sum(const struct mt_run *run, const struct mt_diff_side *side)
{
    uint64_t sum = side->live_bytes + side->free_bytes + side->segment_bytes;
    if (sum == side->reserved_bytes)
        return MT_OK;
    return mt_fail(MT_BAD_TRACE,
                   "the trace is damaged: run %" PRId64 " reserved %" PRIu64 " bytes at most, but its segments then "
                   "have %" PRIu64 "; memtrace run records it anew",
                   run->id, side->reserved_bytes, sum);
}

static mt_status read_holes(const struct mt_diff_run *at, int64_t mapped, struct mt_diff_side *side)
{
    struct mt_segment_row *segments = NULL;
    struct mt_block_row *blocks = NULL;
    size_t segment_count = 0, block_count = 0;
    mt_status status = mt_trace_segments(at->trace, at->run, &segments, &segment_count);
    if (status == MT_OK)
        status = mt_trace_live(at->trace, at->run, mapped, &blocks, &block_count);
    if (status == MT_OK) {
        for (size_t i = 0; i < block_count; i++)
            side->live_bytes += blocks[i].block_bytes;
        measure_holes(side, mapped, segments, segment_count, blocks, block_count);
        status = check_sum(at->run, side);
    }
    free(segments);
    free(blocks);
    return status;
}

mt_status diff_reserved_read(const struct mt_diff_run *at, struct mt_trace *keeper, struct mt_diff_side *side)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak(at->trace, at->run, MT_MEASURE_RESERVED, &peak);
    if (status == MT_OK) {
        side->reserved_bytes = peak.bytes;
        side->reserved_step = peak.step;
        side->reserved_phase = mt_query_keep(keeper, peak.phase);
        side->reserved_span = mt_query_keep(keeper, peak.span);
    }
    int64_t mapped = peak.event;
    mt_peak_row_release(&peak);
    if (status == MT_OK)
        status = read_asked(at, mapped, &side->asked_bytes);
    return status == MT_OK ? read_holes(at, mapped, side) : status;
}

mt_status diff_phase_of_free(const struct mt_diff_run *at, const struct diff_free *wanted, const char **out_phase)
{
    *out_phase = "";
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        at->trace, at->run,
        "SELECT requested_bytes FROM event WHERE ?1 = ?1 AND kind = ?7 AND id >= ?4 AND id <"
        " (SELECT id FROM event WHERE id > ?3 AND id <= ?5 AND kind = ?6 AND allocation = ?2 ORDER BY id LIMIT 1)"
        " ORDER BY id DESC LIMIT 1",
        &statement);
    if (status != MT_OK)
        return status;
    const int64_t values[] = {wanted->alloc_event, wanted->event, wanted->first,
                              wanted->last,        MT_EVENT_FREE, MT_EVENT_PHASE};
    for (int i = 0; i < (int)(sizeof values / sizeof values[0]); i++)
        mt_statement_bind_integer(statement, i + 2, values[i]);
    bool row;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row) {
        int64_t phase = mt_statement_integer(statement, 0);
        *out_phase = phase >= 0 && phase < MT_PHASE_COUNT ? mt_phase_name((mt_phase)phase) : "";
    }
    mt_statement_finalize(statement);
    return status;
}
