/* What was free when a run took its last segment, or grew one, and why it took it.
 *
 * A segment is taken for a block that comes directly after it and that none of the holes could serve:
 *
 *   segment 0  [block][hole     ][block]
 *   segment 1  [block][block][hole]
 *   segment 2  taken at the peak: [the block that was asked for][…]                 its own rest is no hole yet
 *
 * One that grows is a hole at its end, and what it grew by. */
#include "analysis/diff_reserved.h"

#include "analysis/fragmentation.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Whether event `mapped` took the segment of a plan: it comes before all that the run does, and not for a block. */
static mt_status find_plan(const struct mt_diff_run *at, int64_t mapped, struct mt_diff_side *side)
{
    struct mt_setting_row *settings;
    size_t count;
    if (mapped != at->run->first_event || side->asked_bytes > 0)
        return MT_OK;
    mt_status status = mt_trace_settings(at->trace, at->run, &settings, &count);
    side->is_plan = strcmp(mt_setting_find(settings, count, "plan"), "on") == 0;
    free(settings);
    return status;
}

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

static void add_segment(void *context, const struct mt_segment_holes *holes)
{
    struct mt_diff_side *side = context;
    side->holes += holes->hole_count;
    side->free_bytes += holes->hole_bytes;
    side->idle_bytes += holes->block_count == 0 ? holes->hole_bytes : 0;
    side->widest_hole = holes->largest_bytes > side->widest_hole ? holes->largest_bytes : side->widest_hole;
}

/* What there was when event `mapped` took a segment, or a part of one: that, and the holes of what was there before. */
static void measure(struct mt_diff_side *side, int64_t mapped, const struct mt_layout *layout)
{
    const struct mt_hole_visitor visitor = {side, add_segment};
    for (size_t i = 0; i < layout->part_count; i++) {
        const struct mt_part_row *part = &layout->parts[i];
        if (part->mapped_event != mapped)
            continue;
        side->segment_bytes += part->bytes;
        side->segment_grew =
            part->segment < layout->segment_count && layout->segments[part->segment].mapped_event < mapped;
    }
    for (size_t i = 0; i < layout->block_count; i++)
        side->live_bytes += layout->blocks[i].block_bytes;
    mt_holes_visit(layout, mapped - 1, &visitor);
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
    struct mt_part_row *parts = NULL;
    struct mt_block_row *blocks = NULL;
    size_t segment_count = 0, part_count = 0, block_count = 0;
    mt_status status = mt_trace_segments(at->trace, at->run, &segments, &segment_count);
    if (status == MT_OK)
        status = mt_trace_parts(at->trace, at->run, &parts, &part_count);
    if (status == MT_OK)
        status = mt_trace_live(at->trace, at->run, mapped, &blocks, &block_count);
    if (status == MT_OK) {
        const struct mt_layout layout = {blocks, block_count, segments, segment_count, parts, part_count};
        measure(side, mapped, &layout);
        status = check_sum(at->run, side);
    }
    free(segments);
    free(parts);
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
    if (status == MT_OK)
        status = find_plan(at, mapped, side);
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
