/* The refusal changes nothing, so the holes that it met are those after it. */
#include "analysis/refusal.h"

#include "analysis/growth.h"
#include "analysis/holes.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *mt_hole_reason_name(mt_hole_reason reason)
{
    static const char *const names[] = {[MT_HOLE_TOO_SMALL] = "too small",
                                        [MT_HOLE_OTHER_POOL] = "other pool",
                                        [MT_HOLE_OTHER_STREAM] = "other stream",
                                        [MT_HOLE_NOT_TAKEN] = "not taken"};
    return names[reason];
}

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
    return (a->unmapped_event < b->unmapped_event) - (a->unmapped_event > b->unmapped_event);
}

/* The parts that were given back before `event`, the last one first; the caller's. */
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

/* What was given back for the request is what its event directly follows: anything between would be another's. Parts that
 * were mapped apart may have been given back by one event. */
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

/* What holes of one segment have in common. */
struct hole_place {
    mt_stream stream;
    bool is_small;
};

static mt_hole_reason reason_of(const struct mt_refusal *refusal, struct hole_place place, uint64_t bytes)
{
    bool wants_small = refusal->need.block_bytes <= refusal->need.small_limit_bytes;
    if (place.stream != refusal->mark.stream)
        return MT_HOLE_OTHER_STREAM;
    if (place.is_small != wants_small)
        return MT_HOLE_OTHER_POOL;
    return bytes < refusal->need.block_bytes ? MT_HOLE_TOO_SMALL : MT_HOLE_NOT_TAKEN;
}

/* The group that such a hole belongs to, made if there is none. There are few. */
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
    group->count++;
    group->bytes += bytes;
    if (bytes > group->largest_bytes)
        group->largest_bytes = bytes;
    refusal->hole_count++;
    refusal->hole_bytes += bytes;
    if (bytes > refusal->largest_hole_bytes)
        refusal->largest_hole_bytes = bytes;
}

/* A segment's pool is that of the blocks in it. Of one without a block, which an allocator of ours would have given
 * back, its own size tells. */
static struct hole_place place_of(const struct mt_refusal *refusal, const struct mt_segment_holes *holes)
{
    uint64_t told_by = holes->block_count > 0 ? holes->blocks[0]->block_bytes : holes->segment->bytes;
    return (struct hole_place){holes->segment->stream, told_by <= refusal->need.small_limit_bytes};
}

static void add_segment(void *context, const struct mt_segment_holes *holes)
{
    struct mt_refusal *refusal = context;
    struct hole_place place = place_of(refusal, holes);
    for (size_t i = 0; i < holes->hole_count; i++)
        add_hole(refusal, place, holes->holes[i]);
    refusal->allocated_bytes += holes->allocated_bytes;
    refusal->reserved_bytes += holes->mapped_bytes;
}

static void visit_segments(const struct mt_advice_input *input, struct mt_refusal *refusal)
{
    const struct mt_layout layout = {input->blocks,        input->block_count, input->segments,
                                     input->segment_count, input->parts,       input->part_count};
    const struct mt_hole_visitor visitor = {refusal, add_segment};
    mt_holes_visit(&layout, refusal->mark.event, &visitor);
}

static int compare_groups(const void *left, const void *right)
{
    const struct mt_hole_group *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->reason > b->reason) - (a->reason < b->reason);
}

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

/* What of the device it would have taken, where there is as much. */
static void find_needed(const struct mt_advice_input *input, struct mt_refusal *refusal)
{
    const struct mt_growth_request request = {.event = refusal->mark.event,
                                              .stream = refusal->mark.stream,
                                              .block_bytes = refusal->need.block_bytes,
                                              .small_limit_bytes = refusal->need.small_limit_bytes};
    uint64_t growth;
    refusal->grows = mt_growth_find(input, &request, &growth) && growth > 0;
    refusal->needed_bytes = refusal->grows ? growth : refusal->need.segment_bytes;
}

mt_status mt_refusal_create(const struct mt_advice_input *input, struct mt_refusal *out)
{
    *out = (struct mt_refusal){.capacity_bytes = input->capacity_bytes};
    mt_status status = find_mark(input, out);
    if (status == MT_OK)
        status = find_need(input, out);
    if (status != MT_OK)
        return status;
    find_given_back(input, out);
    visit_segments(input, out);
    if (out->group_count > 0)
        qsort(out->groups, out->group_count, sizeof *out->groups, compare_groups);
    uint64_t left = out->capacity_bytes > out->reserved_bytes ? out->capacity_bytes - out->reserved_bytes : 0;
    find_needed(input, out);
    if (out->needed_bytes > left)
        out->short_bytes = out->needed_bytes - left;
    count_alike(input, out);
    return MT_OK;
}

void mt_refusal_release(struct mt_refusal *refusal)
{
    free(refusal->groups);
    *refusal = (struct mt_refusal){0};
}
