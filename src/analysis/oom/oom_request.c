/* The refused request. A refusal changes nothing, so the gaps at the request are the gaps after it. */
#include "analysis/fragmentation.h"
#include "analysis/oom/oom.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *mt_hole_reason_name(mt_hole_reason reason)
{
    static const char *const names[] = {[MT_HOLE_TOO_SMALL] = "too small",
                                        [MT_HOLE_OTHER_POOL] = "other pool",
                                        [MT_HOLE_OTHER_STREAM] = "other stream",
                                        [MT_HOLE_NOT_TAKEN] = "not taken"};
    assert(reason < MT_HOLE_REASON_COUNT);
    return names[reason];
}

/* Finds the last refusal of the window. */
static mt_status find_mark(const struct mt_advice_input *input, struct mt_refusal *refusal)
{
    for (size_t i = input->mark_count; i-- > 0;)
        if (input->marks[i].kind == MT_EVENT_OOM) {
            refusal->mark = input->marks[i];
            return MT_OK;
        }
    return mt_fail(MT_USAGE, "no request was refused");
}

static mt_status find_need(const struct mt_advice_input *input, struct mt_refusal *refusal)
{
    if (mt_alloc_need(&input->settings, refusal->mark.value, &refusal->need))
        return MT_OK;
    return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " asks for %" PRIu64 " bytes",
                   refusal->mark.event, refusal->mark.value);
}

static int compare_unmapped(const void *left, const void *right)
{
    const struct mt_part_row *a = *(const struct mt_part_row *const *)left;
    const struct mt_part_row *b = *(const struct mt_part_row *const *)right;
    return MT_COMPARE(b->unmapped_event, a->unmapped_event);
}

/* Lists the parts that were released before `event`, latest first. The caller frees them. */
static const struct mt_part_row **list_unmapped(const struct mt_advice_input *input, int64_t event, size_t *out_count)
{
    const struct mt_part_row **unmapped = mt_host_alloc((input->part_count + 1) * sizeof(struct mt_part_row *));
    *out_count = 0;
    for (size_t i = 0; i < input->part_count; i++)
        if (input->parts[i].unmapped_event != 0 && input->parts[i].unmapped_event < event)
            unmapped[(*out_count)++] = &input->parts[i];
    qsort(unmapped, *out_count, sizeof(struct mt_part_row *), compare_unmapped);
    return unmapped;
}

/* Sums the memory that was released for the request: parts whose events directly precede it. One event may release
 * several parts. */
static void find_given_back(const struct mt_advice_input *input, struct mt_refusal *refusal)
{
    size_t count;
    const struct mt_part_row **unmapped = list_unmapped(input, refusal->mark.event, &count);
    int64_t event = refusal->mark.event;
    for (size_t i = 0; i < count && unmapped[i]->unmapped_event >= event - 1; i++) {
        refusal->given_back_bytes += unmapped[i]->bytes;
        refusal->given_back_segments += unmapped[i]->unmapped_event < event;
        event = unmapped[i]->unmapped_event;
    }
    free(unmapped);
}

/* The stream and the pool of a segment. */
struct hole_place {
    mt_stream stream;
    bool is_small;
};

static bool wants_small(const struct mt_refusal *refusal)
{
    return refusal->need.block_bytes <= refusal->need.small_limit_bytes;
}

static mt_hole_reason reason_of(const struct mt_refusal *refusal, struct hole_place place, uint64_t bytes)
{
    if (place.stream != refusal->mark.stream)
        return MT_HOLE_OTHER_STREAM;
    if (place.is_small != wants_small(refusal))
        return MT_HOLE_OTHER_POOL;
    return bytes < refusal->need.block_bytes ? MT_HOLE_TOO_SMALL : MT_HOLE_NOT_TAKEN;
}

/* Returns the group of such gaps, and adds it if necessary. There are few groups. */
static struct mt_hole_group *group_for(struct mt_refusal *refusal, struct hole_place place, mt_hole_reason reason)
{
    for (size_t i = 0; i < refusal->group_count; i++) {
        struct mt_hole_group *group = &refusal->groups[i];
        if (group->reason == reason && group->stream == place.stream && group->is_small == place.is_small)
            return group;
    }
    refusal->groups = mt_host_resize(refusal->groups, refusal->group_count + 1, sizeof *refusal->groups);
    refusal->groups[refusal->group_count] =
        (struct mt_hole_group){.reason = reason, .stream = place.stream, .is_small = place.is_small};
    return &refusal->groups[refusal->group_count++];
}

static void add_hole(struct mt_refusal *refusal, struct hole_place place, uint64_t bytes)
{
    struct mt_hole_group *group = group_for(refusal, place, reason_of(refusal, place, bytes));
    assert(bytes > 0);
    group->count++;
    group->bytes += bytes;
    if (bytes > group->largest_bytes)
        group->largest_bytes = bytes;
    refusal->hole_count++;
    refusal->hole_bytes += bytes;
    if (bytes > refusal->largest_hole_bytes)
        refusal->largest_hole_bytes = bytes;
}

/* Returns a segment's stream and pool. Its blocks determine the pool. A segment without a block, which memtrace's own
 * allocators would have released, is judged by its own size. */
static struct hole_place place_of(const struct mt_refusal *refusal, const struct mt_segment_holes *holes)
{
    uint64_t bytes = holes->block_count > 0 ? holes->blocks[0]->block_bytes : holes->segment->bytes;
    return (struct hole_place){holes->segment->stream, bytes <= refusal->need.small_limit_bytes};
}

/* Growth. If the allocator's segments are ranges of addresses that grow by pages, a request needs less than a new
 * segment, since the new memory joins free memory next to it. The request can be placed in each gap between live
 * blocks, and after the last block. The place that needs least new memory is chosen.
 *
 *   ├ block ┼ hole ┼╌╌ no memory ╌╌┼ block ┼ hole ┼╌╌╌ addresses without end ╌╌╌
 *           ├──── the request ────┤
 *                  ├─ must grow ──┤
 */
static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Returns the granularity with which the ranges of the request's pool grow: the growth for the smallest request. */
static uint64_t unit_of(const struct mt_advice_input *input, const struct mt_refusal *refusal)
{
    struct mt_alloc_need least = refusal->need;
    (void)mt_alloc_need(&input->settings, wants_small(refusal) ? 1 : refusal->need.small_limit_bytes + 1, &least);
    return least.segment_bytes;
}

/* True if the segment has parts that were mapped at different events. */
static bool has_grown(const struct mt_advice_input *input, uint32_t segment)
{
    int64_t first = 0;
    for (size_t i = 0; i < input->part_count; i++) {
        const struct mt_part_row *part = &input->parts[i];
        if (part->segment != segment)
            continue;
        if (first != 0 && part->mapped_event != first)
            return true;
        first = part->mapped_event;
    }
    return false;
}

/* True if segments are ranges. If none ever grew, the device may not support it, and each segment serves one
 * request. */
static bool has_ranges(const struct mt_advice_input *input)
{
    if (!mt_alloc_grows(&input->settings))
        return false;
    for (size_t i = 0; i < input->segment_count; i++)
        if (has_grown(input, (uint32_t)i))
            return true;
    return false;
}

/* Returns the bytes of [begin, end) in the segment without memory, in whole units. Parts are ordered by segment, then
 * offset. */
static uint64_t missing_bytes(const struct mt_advice_input *input, uint32_t segment, uint64_t begin, uint64_t end,
                              uint64_t unit)
{
    assert(begin < end);
    uint64_t at = begin, missing = 0;
    for (size_t i = 0; i < input->part_count && at < end; i++) {
        const struct mt_part_row *part = &input->parts[i];
        if (part->segment != segment || !mt_part_has_memory(part, input->last_event) ||
            part->offset + part->bytes <= at)
            continue;
        if (part->offset > at)
            missing += round_up(mt_smaller(part->offset, end) - at, unit);
        at = mt_larger(at, part->offset + part->bytes);
    }
    return at < end ? missing + round_up(end - at, unit) : missing;
}

/* Returns the least new memory that the segment needs for a block of this size, over all places in it. */
static uint64_t least_missing(const struct mt_advice_input *input, const struct mt_segment_holes *holes,
                              uint64_t block_bytes, uint64_t unit)
{
    uint64_t least = UINT64_MAX, begin = 0;
    for (size_t i = 0; i <= holes->block_count; i++) {
        const struct mt_block_row *block = i < holes->block_count ? holes->blocks[i] : NULL;
        uint64_t end = block != NULL ? block->offset : UINT64_MAX;
        if (end > begin && end - begin >= block_bytes)
            least = mt_smaller(least, missing_bytes(input, holes->segment->number, begin, begin + block_bytes, unit));
        if (block != NULL)
            begin = mt_larger(begin, block->offset + block->block_bytes);
    }
    return least;
}

/* True if the segment may grow for the request: it is a range with the request's stream and pool. The first segment may
 * not be a range, since a plan maps it as a whole. A segment without a block has been released. */
static bool may_grow(const struct mt_advice_input *input, const struct mt_refusal *refusal,
                     const struct mt_segment_holes *holes)
{
    struct hole_place place = place_of(refusal, holes);
    return holes->block_count > 0 && place.stream == refusal->mark.stream && place.is_small == wants_small(refusal) &&
           (holes->segment->number > 0 || has_grown(input, 0));
}

/* A visit of the segments. */
struct visit {
    const struct mt_advice_input *input;
    struct mt_refusal *refusal;
    bool has_ranges;
    uint64_t least_growth; /* of any of them; UINT64_MAX: none can grow */
};

static void visit_segment(void *context, const struct mt_segment_holes *holes)
{
    struct visit *visit = context;
    struct mt_refusal *refusal = visit->refusal;
    struct hole_place place = place_of(refusal, holes);
    for (size_t i = 0; i < holes->hole_count; i++)
        add_hole(refusal, place, holes->holes[i]);
    refusal->allocated_bytes += holes->allocated_bytes;
    refusal->reserved_bytes += holes->mapped_bytes;
    if (visit->has_ranges && may_grow(visit->input, refusal, holes))
        visit->least_growth =
            mt_smaller(visit->least_growth,
                       least_missing(visit->input, holes, refusal->need.block_bytes, unit_of(visit->input, refusal)));
}

/* Sets the memory of the segments, and how much the request needs from the device. */
static void visit_segments(const struct mt_advice_input *input, struct mt_refusal *refusal)
{
    const struct mt_layout layout = mt_layout_of(input);
    struct visit visit = {input, refusal, has_ranges(input), UINT64_MAX};
    const struct mt_hole_visitor visitor = {&visit, visit_segment};
    mt_holes_visit(&layout, input->last_event, &visitor);
    refusal->grows = visit.least_growth != UINT64_MAX && visit.least_growth > 0;
    refusal->needed_bytes =
        mt_smaller(visit.least_growth > 0 ? visit.least_growth : UINT64_MAX, refusal->need.segment_bytes);
}

static int compare_groups(const void *left, const void *right)
{
    const struct mt_hole_group *a = left, *b = right;
    int order = MT_COMPARE(b->bytes, a->bytes);
    return order != 0 ? order : MT_COMPARE(a->reason, b->reason);
}

/* True if labels are equal except for the layer. */
static bool is_alike(const struct mt_label_row *a, const struct mt_label_row *b)
{
    return strcmp(a->category, b->category) == 0 && strcmp(a->role, b->role) == 0 && strcmp(a->op, b->op) == 0 &&
           strcmp(a->phase, b->phase) == 0 && strcmp(a->dtype, b->dtype) == 0 && strcmp(a->shape, b->shape) == 0 &&
           strcmp(a->place, b->place) == 0;
}

static void count_alike(const struct mt_advice_input *input, struct mt_refusal *refusal)
{
    bool *alike = mt_host_alloc((input->label_count + 1) * sizeof *alike);
    for (size_t i = 0; i < input->label_count; i++)
        alike[i] = is_alike(&input->labels[i], &input->labels[refusal->mark.label]);
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        refusal->alike += alike[block->label] && block->requested_bytes == refusal->mark.value;
    }
    free(alike);
}

uint64_t mt_refusal_left(const struct mt_refusal *refusal)
{
    return refusal->capacity_bytes > refusal->reserved_bytes ? refusal->capacity_bytes - refusal->reserved_bytes : 0;
}

void mt_refusal_set_free(struct mt_refusal *refusal, uint64_t free_bytes)
{
    assert(refusal->needed_bytes > 0 && free_bytes <= INT64_MAX);
    refusal->device_free_bytes = (int64_t)free_bytes;
    refusal->short_bytes = refusal->needed_bytes > free_bytes ? refusal->needed_bytes - free_bytes : 0;
}

bool mt_refusal_is_limited(const struct mt_refusal *refusal)
{
    return refusal->device_free_bytes >= 0 && refusal->needed_bytes <= (uint64_t)refusal->device_free_bytes;
}

uint64_t mt_refusal_elsewhere(const struct mt_refusal *refusal)
{
    uint64_t left = mt_refusal_left(refusal);
    bool is_known = refusal->device_free_bytes >= 0;
    return is_known && left > (uint64_t)refusal->device_free_bytes ? left - (uint64_t)refusal->device_free_bytes : 0;
}

mt_status mt_refusal_create(const struct mt_advice_input *input, struct mt_refusal *out)
{
    *out = (struct mt_refusal){.capacity_bytes = input->capacity_bytes, .device_free_bytes = -1};
    MT_TRY(find_mark(input, out));
    MT_TRY(find_need(input, out));
    assert(out->mark.event == input->last_event);
    find_given_back(input, out);
    visit_segments(input, out);
    if (out->group_count > 0)
        qsort(out->groups, out->group_count, sizeof *out->groups, compare_groups);
    uint64_t left = mt_refusal_left(out);
    if (out->needed_bytes > left)
        out->short_bytes = out->needed_bytes - left;
    count_alike(input, out);
    assert(0 < out->needed_bytes && out->needed_bytes <= out->need.segment_bytes);
    return MT_OK;
}

void mt_refusal_release(struct mt_refusal *refusal)
{
    free(refusal->groups);
    *refusal = (struct mt_refusal){0};
}
