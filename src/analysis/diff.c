/* Why did memory change from one run to another? */
#include "analysis/diff.h"

#include "analysis/diff_parts.h"
#include "analysis/diff_reserved.h"
#include "base/memory.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void release_live(struct diff_live *live)
{
    free(live->blocks);
    free(live->labels);
}

static mt_status fail_empty(const struct mt_run *run)
{
    return mt_fail(MT_USAGE,
                   "run %" PRId64 " (%s) never got a block, so there is nothing to compare: choose another one "
                   "(memtrace runs lists them), or repeat it",
                   run->id, run->state);
}

/* Sets what the side's peak of allocated bytes says. */
static mt_status read_allocated_peak(const struct mt_diff_run *at, struct mt_trace *keeper, struct mt_diff_side *side,
                                     int64_t *out_event)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak(at->trace, at->run, MT_MEASURE_ALLOCATED, &peak);
    if (status == MT_OK && peak.bytes == 0)
        status = fail_empty(at->run);
    if (status == MT_OK) {
        side->allocated_bytes = peak.bytes;
        side->step = peak.step;
        side->phase = mt_query_keep(keeper, peak.phase);
        side->span = mt_query_keep(keeper, peak.span);
        *out_event = peak.event;
    }
    mt_peak_row_release(&peak);
    return status;
}

/* The first and last event of a step; without a step, nothing is of an earlier one. */
static mt_status read_step(const struct mt_diff_run *at, int64_t step, struct diff_live *live)
{
    live->step_begin = INT64_MIN;
    if (step < 0)
        return MT_OK;
    return mt_trace_step_events(at->trace, at->run, step, &live->step_begin, &live->step_end);
}

/* Texts of both sides are compared, so they are kept in one place. */
static void keep_labels(struct mt_trace *keeper, struct diff_live *live)
{
    for (size_t i = 0; i < live->label_count; i++) {
        struct mt_label_row *label = &live->labels[i];
        const char **texts[] = {&label->category, &label->role,  &label->op,   &label->phase,
                                &label->dtype,    &label->shape, &label->place};
        for (size_t text = 0; text < sizeof texts / sizeof texts[0]; text++)
            *texts[text] = mt_query_keep(keeper, *texts[text]);
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

/* Whether what was live is what the run's summary says of its peak. */
static mt_status check_peak(const struct mt_run *run, const struct mt_diff_side *side, const struct diff_live *live)
{
    uint64_t allocated = 0;
    for (size_t i = 0; i < live->block_count; i++)
        allocated += live->blocks[i].block_bytes;
    if (allocated == side->allocated_bytes && side->requested_bytes <= allocated && allocated <= side->reserved_bytes)
        return MT_OK;
    return mt_fail(MT_BAD_TRACE,
                   "the trace is damaged: run %" PRId64 " had %" PRIu64 " bytes allocated at most, but the blocks that "
                   "were live then have %" PRIu64 "; memtrace run records it anew",
                   run->id, side->allocated_bytes, allocated);
}

static mt_status load_side(const struct mt_diff_run *at, struct mt_trace *keeper, struct mt_diff_side *side,
                           struct diff_live *live)
{
    mt_status status = read_allocated_peak(at, keeper, side, &live->event);
    if (status == MT_OK)
        status = read_step(at, side->step, live);
    if (status == MT_OK)
        status = mt_trace_live(at->trace, at->run, live->event, &live->blocks, &live->block_count);
    if (status == MT_OK)
        status = mt_trace_labels(at->trace, at->run, &live->labels, &live->label_count);
    if (status == MT_OK)
        status = check_labels(live);
    if (status != MT_OK)
        return status;
    if (at->trace != keeper)
        keep_labels(keeper, live);
    side->blocks = live->block_count;
    for (size_t i = 0; i < live->block_count; i++)
        side->requested_bytes += live->blocks[i].requested_bytes;
    status = diff_reserved_read(at, keeper, side);
    return status == MT_OK ? check_peak(at->run, side, live) : status;
}

static mt_status find_last_gradients(const struct mt_diff_run *at, const struct diff_live *live,
                                     struct diff_last_gradients *out)
{
    for (size_t i = 0; i < live->block_count; i++) {
        const struct mt_block_row *block = &live->blocks[i];
        if (!diff_is_last_gradient(live, block))
            continue;
        mt_status status = mt_query_step_of(at->trace, at->run, block->alloc_event, &out->made_in_step);
        if (status == MT_OK)
            status = diff_phase_of_free(
                at, &(struct diff_free){block->alloc_event, live->event, live->step_begin, live->step_end},
                &out->freed_in);
        return status;
    }
    return MT_OK;
}

static int64_t difference(uint64_t a, uint64_t b)
{
    return (int64_t)(b - a);
}

static void add_row(struct mt_diff_parts *parts, struct mt_diff_row row)
{
    row.delta_bytes = difference(row.a_bytes, row.b_bytes);
    parts->rows = mt_host_room(parts->rows, parts->row_count, sizeof *parts->rows);
    parts->rows[parts->row_count++] = row;
}

/* One row for each category, role, phase and op. */
static void make_rows(const struct diff_kinds *kinds, struct mt_diff_parts *parts)
{
    for (size_t begin = 0, end; begin < kinds->count; begin = end) {
        const struct diff_kind *first = &kinds->items[begin];
        struct mt_diff_row row = {
            .category = first->category, .role = first->role, .phase = first->phase, .op = first->op};
        for (end = begin; end < kinds->count && diff_kinds_share_row(first, &kinds->items[end]); end++) {
            const struct diff_kind *kind = &kinds->items[end];
            row.a_bytes += kind->block_bytes[MT_SIDE_A];
            row.b_bytes += kind->block_bytes[MT_SIDE_B];
            row.a_blocks += kind->count[MT_SIDE_A];
            row.b_blocks += kind->count[MT_SIDE_B];
        }
        if (row.a_blocks > 0 || row.b_blocks > 0)
            add_row(parts, row);
    }
}

static void add_cause(const struct diff_context *context, const struct diff_finding *finding,
                      struct mt_diff_parts *parts)
{
    if (finding->bytes == 0)
        return;
    parts->causes = mt_host_room(parts->causes, parts->cause_count, sizeof *parts->causes);
    parts->causes[parts->cause_count++] = diff_cause_describe(context, finding);
}

static void make_causes(struct diff_context *context, const struct diff_kinds *kinds, struct mt_diff_parts *parts)
{
    struct diff_pairs pairs = {0};
    struct diff_findings findings = {0};
    diff_kinds_pair(kinds, &pairs);
    diff_findings_collect(&pairs, &findings);
    context->pairs = &pairs;
    for (size_t i = 0; i < findings.count; i++)
        add_cause(context, &findings.items[i], parts);
    context->pairs = NULL;
    const struct mt_diff_side *a = &context->side[MT_SIDE_A], *b = &context->side[MT_SIDE_B];
    struct diff_finding rounding = {
        .cause = MT_CAUSE_ROUNDING,
        .category = "",
        .bytes = difference(a->allocated_bytes - a->requested_bytes, b->allocated_bytes - b->requested_bytes)};
    add_cause(context, &rounding, parts);
    free(findings.items);
    free(pairs.items);
}

/* What is said of allocated bytes, and what the segments had beyond. */
static void make_reserved(const struct diff_context *context, const struct mt_diff_parts *allocated,
                          struct mt_diff_parts *reserved)
{
    for (size_t i = 0; i < allocated->row_count; i++)
        add_row(reserved, allocated->rows[i]);
    const struct mt_diff_side *a = &context->side[MT_SIDE_A], *b = &context->side[MT_SIDE_B];
    struct mt_diff_row cached = {.category = MT_DIFF_CACHED,
                                 .role = "",
                                 .phase = "",
                                 .op = "",
                                 .a_bytes = a->reserved_bytes - a->allocated_bytes,
                                 .b_bytes = b->reserved_bytes - b->allocated_bytes};
    add_row(reserved, cached);
    reserved->causes = mt_host_resize(NULL, allocated->cause_count + 1, sizeof *reserved->causes);
    if (allocated->cause_count > 0)
        memcpy(reserved->causes, allocated->causes, allocated->cause_count * sizeof *reserved->causes);
    reserved->cause_count = allocated->cause_count;
    struct diff_finding finding = {
        .cause = MT_CAUSE_CACHED, .category = "", .bytes = difference(cached.a_bytes, cached.b_bytes)};
    if (finding.bytes != 0)
        reserved->causes[reserved->cause_count++] = diff_cause_describe(context, &finding);
}

static uint64_t magnitude(int64_t bytes)
{
    return bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
}

static int compare_magnitudes(int64_t left, int64_t right)
{
    uint64_t a = magnitude(left), b = magnitude(right);
    return (a < b) - (a > b);
}

static int compare_rows(const void *left, const void *right)
{
    const struct mt_diff_row *a = left, *b = right;
    int order = compare_magnitudes(a->delta_bytes, b->delta_bytes);
    const char *const texts[][2] = {
        {a->category, b->category}, {a->role, b->role}, {a->phase, b->phase}, {a->op, b->op}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && order == 0; i++)
        order = strcmp(texts[i][0], texts[i][1]);
    return order;
}

static int compare_causes(const void *left, const void *right)
{
    const struct mt_diff_cause *a = left, *b = right;
    int order = compare_magnitudes(a->bytes, b->bytes);
    if (order == 0)
        order = (int)a->kind - (int)b->kind;
    return order != 0 ? order : strcmp(a->category, b->category);
}

static void sort_parts(struct mt_diff_parts *parts)
{
    if (parts->row_count > 1)
        qsort(parts->rows, parts->row_count, sizeof *parts->rows, compare_rows);
    if (parts->cause_count > 1)
        qsort(parts->causes, parts->cause_count, sizeof *parts->causes, compare_causes);
}

static void compare_states(struct diff_context *context, const struct diff_live live[], struct mt_diff *out)
{
    const struct mt_diff_side *a = &out->side[MT_SIDE_A], *b = &out->side[MT_SIDE_B];
    struct diff_kinds kinds = {0};
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        diff_kinds_add(&kinds, (mt_side)side, &live[side]);
    diff_kinds_merge(&kinds);
    out->allocated.delta_bytes = difference(a->allocated_bytes, b->allocated_bytes);
    out->reserved.delta_bytes = difference(a->reserved_bytes, b->reserved_bytes);
    make_rows(&kinds, &out->allocated);
    make_causes(context, &kinds, &out->allocated);
    make_reserved(context, &out->allocated, &out->reserved);
    sort_parts(&out->allocated);
    sort_parts(&out->reserved);
    free(kinds.items);
}

mt_status mt_trace_diff(const struct mt_diff_run *a, const struct mt_diff_run *b, struct mt_diff *out)
{
    *out = (struct mt_diff){0};
    const struct mt_diff_run *const runs[] = {[MT_SIDE_A] = a, [MT_SIDE_B] = b};
    struct diff_live live[MT_SIDE_COUNT] = {0};
    struct diff_context context = {.keeper = a->trace, .side = out->side};
    mt_status status = MT_OK;
    for (int side = 0; side < MT_SIDE_COUNT && status == MT_OK; side++) {
        status = load_side(runs[side], context.keeper, &out->side[side], &live[side]);
        if (status == MT_OK)
            status = find_last_gradients(runs[side], &live[side], &context.last_gradients[side]);
    }
    if (status == MT_OK)
        compare_states(&context, live, out);
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        release_live(&live[side]);
    return status;
}

void mt_diff_release(struct mt_diff *diff)
{
    struct mt_diff_parts *parts[] = {&diff->allocated, &diff->reserved};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        free(parts[i]->rows);
        free(parts[i]->causes);
    }
    *diff = (struct mt_diff){0};
}
