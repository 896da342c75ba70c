/* A side is read at two moments: at the allocated peak, and when the last segment of the reserved peak was mapped. That
 * segment was mapped for the block that comes directly after it, for which no free gap was suitable. */
#include "analysis/diff/diff_sides.h"

#include "analysis/fragmentation.h"
#include "trace/query/lookup.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void diff_live_release(struct diff_live *live)
{
    free(live->blocks);
    free(live->labels);
    *live = (struct diff_live){0};
}

bool diff_is_last_gradient(const struct diff_live *live, const struct mt_block_row *block)
{
    assert(block->label < live->label_count);
    return block->alloc_event < live->step_begin &&
           strcmp(live->labels[block->label].role, mt_role_name(MT_ROLE_GRADIENT)) == 0;
}

/* Finds out whether event `mapped` mapped the segment of a plan. If so, it is the run's first event, and no block
 * follows it. */
static mt_status find_plan(const struct mt_question *at, int64_t mapped, struct mt_diff_side *side)
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

static void add_holes(void *context, const struct mt_segment_holes *holes)
{
    struct mt_diff_side *side = context;
    side->holes += holes->hole_count;
    side->free_bytes += holes->hole_bytes;
    side->idle_bytes += holes->block_count == 0 ? holes->hole_bytes : 0;
    side->widest_hole = holes->largest_bytes > side->widest_hole ? holes->largest_bytes : side->widest_hole;
}

/* Measures the segments at event `mapped`: the new segment, or the growth of one, and the gaps in the others. A segment
 * that grows has a gap at its old end. If the event mapped nothing, all segments were there before.
 *
 *   segment 0  [block][hole     ][block]
 *   segment 1  [block][block][hole]
 *   segment 2  mapped at the peak: [the block that needed it][…]                its own rest is not yet a gap */
static void measure(struct mt_diff_side *side, int64_t mapped, const struct mt_layout *layout)
{
    const struct mt_hole_visitor visitor = {side, add_holes};
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
    mt_holes_visit(layout, side->segment_bytes > 0 ? mapped - 1 : mapped, &visitor);
}

/* Checks that the segments sum to the peak, and that the blocks in them do not overlap. */
static mt_status check_sum(const struct mt_run *run, const struct mt_diff_side *side)
{
    uint64_t sum = side->live_bytes + side->free_bytes + side->segment_bytes;
    if (sum == side->reserved_bytes)
        return MT_OK;
    return mt_fail(MT_BAD_TRACE,
                   "the trace is damaged: run %" PRId64 " reserved %" PRIu64 " bytes at most, but its segments then "
                   "have %" PRIu64 "",
                   run->id, side->reserved_bytes, sum);
}

static mt_status read_holes(const struct mt_question *at, int64_t mapped, struct mt_diff_side *side)
{
    struct mt_segment_row *segments = NULL;
    struct mt_part_row *parts = NULL;
    struct mt_block_row *blocks = NULL;
    size_t segment_count = 0, part_count = 0, block_count = 0;
    mt_status status = mt_trace_segments(at->trace, at->run, &segments, &segment_count);
    MT_THEN(status, mt_trace_parts(at->trace, at->run, &parts, &part_count));
    MT_THEN(status, mt_trace_live(at->trace, at->run, mapped, &blocks, &block_count));
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

static mt_status read_reserved_peak(const struct mt_question *at, struct mt_trace *keeper, struct mt_diff_side *side)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak(at->trace, at->run, MT_MEASURE_RESERVED, &peak);
    side->reserved_bytes = peak.bytes;
    side->reserved_step = peak.step;
    side->reserved_phase = mt_trace_keep(keeper, peak.phase);
    side->reserved_span = mt_trace_keep(keeper, peak.span);
    int64_t mapped = peak.event;
    mt_peak_row_release(&peak);
    MT_TRY(status);
    MT_TRY(mt_trace_request_after(at->trace, at->run, mapped, &side->asked_bytes));
    MT_TRY(find_plan(at, mapped, side));
    return read_holes(at, mapped, side);
}

/* Reads the side's peak of allocated bytes. */
static mt_status read_allocated_peak(const struct mt_question *at, struct mt_trace *keeper, struct mt_diff_side *side,
                                     int64_t *out_event)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak(at->trace, at->run, MT_MEASURE_ALLOCATED, &peak);
    side->allocated_bytes = peak.bytes;
    side->step = peak.step;
    side->phase = mt_trace_keep(keeper, peak.phase);
    side->span = mt_trace_keep(keeper, peak.span);
    *out_event = peak.event;
    mt_peak_row_release(&peak);
    if (status != MT_OK || side->allocated_bytes > 0)
        return status;
    return mt_fail(MT_USAGE, "run %" PRId64 " (%s) never got a block, so there is nothing to compare", at->run->id,
                   at->run->state);
}

/* Reads the first and last event of the peak's step. Outside steps, no block belongs to an earlier step. */
static mt_status read_step(const struct mt_question *at, int64_t step, struct diff_live *live)
{
    live->step_begin = INT64_MIN;
    if (step < 0)
        return MT_OK;
    return mt_trace_step_events(at->trace, at->run, step, &live->step_begin, &live->step_end);
}

/* Interns the texts of labels in one trace, so that equal texts of both sides have equal pointers. */
static void keep_labels(struct mt_trace *keeper, struct diff_live *live)
{
    for (size_t i = 0; i < live->label_count; i++) {
        struct mt_label_row *label = &live->labels[i];
        const char **texts[] = {&label->category, &label->role,  &label->op,   &label->phase,
                                &label->dtype,    &label->shape, &label->place};
        for (size_t text = 0; text < sizeof texts / sizeof texts[0]; text++)
            *texts[text] = mt_trace_keep(keeper, *texts[text]);
    }
}

static mt_status check_labels(const struct diff_live *live)
{
    for (size_t i = 0; i < live->block_count; i++)
        if (live->blocks[i].label >= live->label_count)
            return mt_fail(MT_BAD_TRACE, "the trace is damaged: an event has label %" PRIu32 ", of %zu",
                           live->blocks[i].label, live->label_count);
    return MT_OK;
}

/* Checks that the live blocks sum to the peak in the run's summary. */
static mt_status check_peak(const struct mt_run *run, const struct mt_diff_side *side, const struct diff_live *live)
{
    uint64_t allocated = 0;
    for (size_t i = 0; i < live->block_count; i++)
        allocated += live->blocks[i].block_bytes;
    if (allocated == side->allocated_bytes && side->requested_bytes <= allocated && allocated <= side->reserved_bytes)
        return MT_OK;
    return mt_fail(MT_BAD_TRACE,
                   "the trace is damaged: run %" PRId64 " had %" PRIu64 " bytes allocated at most, but the blocks that "
                   "were live then have %" PRIu64 "",
                   run->id, side->allocated_bytes, allocated);
}

static mt_status read_side(const struct mt_question *at, struct mt_trace *keeper, struct mt_diff_side *side,
                           struct diff_live *live)
{
    MT_TRY(read_allocated_peak(at, keeper, side, &live->event));
    MT_TRY(read_step(at, side->step, live));
    MT_TRY(mt_trace_live(at->trace, at->run, live->event, &live->blocks, &live->block_count));
    MT_TRY(mt_trace_labels(at->trace, at->run, &live->labels, &live->label_count));
    MT_TRY(check_labels(live));
    if (at->trace != keeper)
        keep_labels(keeper, live);
    side->blocks = live->block_count;
    for (size_t i = 0; i < live->block_count; i++)
        side->requested_bytes += live->blocks[i].requested_bytes;
    MT_TRY(read_reserved_peak(at, keeper, side));
    return check_peak(at->run, side, live);
}

/* Finds gradients of an earlier step that are live at the peak. One of them represents all. */
static mt_status find_last_gradients(const struct mt_question *at, const struct diff_live *live,
                                     struct mt_diff_side *side)
{
    for (size_t i = 0; i < live->block_count; i++) {
        const struct mt_block_row *block = &live->blocks[i];
        if (!diff_is_last_gradient(live, block))
            continue;
        mt_status status = mt_trace_step_of(at->trace, at->run, block->alloc_event, &side->last_gradients_step);
        const struct mt_free_search search = {block->alloc_event, live->event, live->step_begin, live->step_end};
        return status == MT_OK ? mt_trace_phase_of_free(at->trace, at->run, &search, &side->last_gradients_freed_in)
                               : status;
    }
    return MT_OK;
}

mt_status diff_live_load(const struct mt_question *at, struct mt_trace *keeper, struct mt_diff_side *side,
                         struct diff_live *out)
{
    *out = (struct diff_live){0};
    *side = (struct mt_diff_side){0};
    MT_TRY(read_side(at, keeper, side, out));
    assert(side->requested_bytes <= side->allocated_bytes && side->allocated_bytes <= side->reserved_bytes);
    assert(side->reserved_bytes == side->live_bytes + side->free_bytes + side->segment_bytes);
    assert(side->idle_bytes <= side->free_bytes && side->widest_hole <= side->free_bytes);
    return find_last_gradients(at, out, side);
}
