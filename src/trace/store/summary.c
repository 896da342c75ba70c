#include "trace/store/summary.h"

#include "base/memory.h"
#include "trace/store/summary_parts.h"

#include <stdlib.h>

enum { CHECKPOINT_EVENTS = 4096, CHECKPOINT_LIVE_FACTOR = 4 };
enum { RESERVED_ONLY = 1u << MT_MEASURE_RESERVED, ALL_MEASURES = (1u << MT_MEASURE_COUNT) - 1 };

static struct mt_summary_scope *current_scope(struct mt_summary *summary)
{
    return summary->scopes[summary->scope_count - 1];
}

static void begin_scope(struct mt_summary *summary, int64_t step, int64_t event)
{
    summary->scopes = mt_host_room(summary->scopes, summary->scope_count, sizeof *summary->scopes);
    struct mt_summary_scope *scope = mt_host_alloc(sizeof *scope);
    scope->step = step;
    mt_peaks_begin(&scope->peaks, &summary->totals, event);
    summary->scopes[summary->scope_count++] = scope;
}

struct mt_summary *mt_summary_create(int64_t first_event)
{
    struct mt_summary *summary = mt_host_alloc(sizeof *summary);
    summary->first_event = first_event;
    summary->next_checkpoint = CHECKPOINT_EVENTS;
    summary->totals.category_count = mt_category_set_count(&summary->categories);
    mt_live_create(&summary->live);
    mt_allocations_create(&summary->allocations);
    mt_number_map_create(&summary->segment_index);
    mt_parts_create(&summary->parts);
    mt_peaks_begin(&summary->run_peaks, &summary->totals, first_event);
    begin_scope(summary, MT_STEP_BEFORE, first_event);
    return summary;
}

void mt_summary_destroy(struct mt_summary *summary)
{
    if (summary == NULL)
        return;
    mt_live_release(&summary->live);
    mt_allocations_release(&summary->allocations);
    mt_number_map_release(&summary->segment_index);
    mt_parts_release(&summary->parts);
    for (size_t i = 0; i < summary->scope_count; i++)
        free(summary->scopes[i]);
    for (size_t i = 0; i < summary->checkpoint_count; i++)
        free(summary->checkpoints[i].live);
    free(summary->labels);
    mt_category_set_release(&summary->categories);
    free(summary->scopes);
    free(summary->segments);
    free(summary->changed_segments);
    free(summary->steps);
    free(summary->checkpoints);
    free(summary);
}

int64_t mt_summary_events(const struct mt_summary *summary)
{
    return summary->events;
}

uint64_t mt_summary_complete_from_bytes(const struct mt_summary *summary)
{
    return summary->allocations.complete_from_bytes;
}

/* Those between, which did not come, are labels too. */
static void add_labels_up_to(struct mt_summary *summary, uint32_t number)
{
    for (; summary->label_count <= number; summary->label_count++) {
        summary->labels = mt_host_room(summary->labels, summary->label_count, sizeof *summary->labels);
        summary->labels[summary->label_count] = (struct mt_summary_label){.category = MT_CATEGORY_OTHER};
    }
}

void mt_summary_add_label(struct mt_summary *summary, uint32_t number, const char *category, mt_phase phase)
{
    add_labels_up_to(summary, number);
    summary->labels[number] = (struct mt_summary_label){
        .category = (unsigned char)mt_category_set_add(&summary->categories, category), .phase = (unsigned char)phase};
    summary->totals.category_count = mt_category_set_count(&summary->categories);
}

static inline struct mt_summary_label label_of(const struct mt_summary *summary, const struct mt_event *event)
{
    uint32_t number = mt_label_number(event->label);
    return number < summary->label_count ? summary->labels[number]
                                         : (struct mt_summary_label){.category = MT_CATEGORY_OTHER};
}

/* Before what is live changes. */
static void settle(struct mt_summary *summary, unsigned measures)
{
    struct mt_summary_scope *scope = current_scope(summary);
    if ((scope->peaks.stale & measures) != 0)
        mt_peaks_settle(&scope->peaks, &summary->totals, measures);
    if ((summary->run_peaks.stale & measures) != 0)
        mt_peaks_settle(&summary->run_peaks, &summary->totals, measures);
}

static void raise_peaks(struct mt_summary *summary, int64_t id)
{
    mt_peaks_raise(&current_scope(summary)->peaks, &summary->totals, id);
    mt_peaks_raise(&summary->run_peaks, &summary->totals, id);
}

static void count_allocation(struct mt_summary *summary, const struct mt_event *event, struct mt_summary_label label,
                             int64_t id)
{
    struct mt_summary_count *count = &current_scope(summary)->counts[label.phase][label.category];
    count->count++;
    count->total_bytes += event->requested_bytes;
    if (event->requested_bytes > count->max_bytes)
        count->max_bytes = event->requested_bytes;
    mt_allocations_add(&summary->allocations, mt_label_number(event->label), event->requested_bytes, id);
}

static void add_alloc(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    const struct mt_summary_label label = label_of(summary, event);
    struct mt_category_total *category = &summary->totals.live.category[label.category];
    settle(summary, RESERVED_ONLY);
    mt_live_add(&summary->live, event->address, id);
    category->allocated_bytes += event->block_bytes;
    category->requested_bytes += event->requested_bytes;
    category->blocks++;
    summary->totals.now[MT_MEASURE_ALLOCATED] += event->block_bytes;
    summary->totals.now[MT_MEASURE_REQUESTED] += event->requested_bytes;
    raise_peaks(summary, id);
    count_allocation(summary, event, label, id);
}

static int64_t add_free(struct mt_summary *summary, const struct mt_event *event)
{
    int64_t allocation = mt_live_take(&summary->live, event->address);
    if (allocation == 0)
        return 0;
    settle(summary, ALL_MEASURES);
    struct mt_category_total *category = &summary->totals.live.category[label_of(summary, event).category];
    category->allocated_bytes -= event->block_bytes;
    category->requested_bytes -= event->requested_bytes;
    category->blocks--;
    summary->totals.now[MT_MEASURE_ALLOCATED] -= event->block_bytes;
    summary->totals.now[MT_MEASURE_REQUESTED] -= event->requested_bytes;
    return allocation;
}

/* A row of table segment that is not stored as it is; once, until it is stored. */
static void note_change(struct mt_summary *summary, size_t index)
{
    if (summary->segments[index].changed)
        return;
    summary->segments[index].changed = true;
    summary->changed_segments =
        mt_host_room(summary->changed_segments, summary->changed_count, sizeof *summary->changed_segments);
    summary->changed_segments[summary->changed_count++] = index;
}

/* The row of the segment that the event maps memory in, made if this begins it. */
static size_t segment_to_map(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    uint64_t index = summary->segment_count;
    if (mt_number_map_get(&summary->segment_index, event->segment, &index))
        return index;
    summary->segments = mt_host_room(summary->segments, summary->segment_count, sizeof *summary->segments);
    summary->segments[summary->segment_count++] = (struct mt_summary_segment){
        .id = event->segment, .address = event->address - event->offset, .stream = event->stream, .mapped_event = id};
    mt_number_map_put(&summary->segment_index, event->segment, index);
    return index;
}

static struct mt_part part_of(const struct mt_event *event, int64_t id)
{
    return (struct mt_part){
        .segment = event->segment, .offset = event->offset, .bytes = event->block_bytes, .mapped_event = id};
}

static void map_segment(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    size_t index = segment_to_map(summary, event, id);
    struct mt_summary_segment *segment = &summary->segments[index];
    uint64_t end = event->offset + event->block_bytes;
    uint64_t bytes = mt_parts_map(&summary->parts, part_of(event, id));
    segment->bytes = end > segment->bytes ? end : segment->bytes;
    segment->mapped_bytes += bytes;
    note_change(summary, index);
    summary->totals.now[MT_MEASURE_RESERVED] += bytes;
    raise_peaks(summary, id);
}

static void unmap_segment(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    uint64_t index;
    if (!mt_number_map_get(&summary->segment_index, event->segment, &index))
        return;
    settle(summary, RESERVED_ONLY);
    struct mt_summary_segment *segment = &summary->segments[index];
    uint64_t bytes = mt_parts_unmap(&summary->parts, part_of(event, id), id);
    segment->mapped_bytes -= bytes;
    summary->totals.now[MT_MEASURE_RESERVED] -= bytes;
    if (segment->mapped_bytes > 0)
        return;
    segment->unmapped_event = id;
    mt_number_map_take(&summary->segment_index, event->segment, &index);
    note_change(summary, index);
}

static void begin_step(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    settle(summary, ALL_MEASURES);
    begin_scope(summary, (int64_t)event->value, id);
    summary->steps = mt_host_room(summary->steps, summary->step_count, sizeof *summary->steps);
    summary->steps[summary->step_count++] =
        (struct mt_summary_step){.number = (int64_t)event->value, .first_event = id, .begin_ns = event->time_ns};
}

static void end_step(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    if (summary->step_count == 0)
        return;
    struct mt_summary_step *step = &summary->steps[summary->step_count - 1];
    step->last_event = id;
    step->end_ns = event->time_ns;
}

/* A checkpoint's size grows with the live set and so does the distance to the next: they cost half a byte an event. */
static void add_checkpoint(struct mt_summary *summary, int64_t id)
{
    summary->checkpoints = mt_host_room(summary->checkpoints, summary->checkpoint_count, sizeof *summary->checkpoints);
    struct mt_summary_checkpoint *checkpoint = &summary->checkpoints[summary->checkpoint_count++];
    checkpoint->event = id;
    checkpoint->live_bytes = mt_live_encode(&summary->live, summary->first_event, &checkpoint->live);
    int64_t distance = CHECKPOINT_LIVE_FACTOR * (int64_t)mt_live_count(&summary->live);
    summary->next_checkpoint += distance > CHECKPOINT_EVENTS ? distance : CHECKPOINT_EVENTS;
}

static int64_t apply(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    switch (event->kind) {
    case MT_EVENT_ALLOC:
        add_alloc(summary, event, id);
        return 0;
    case MT_EVENT_FREE:
        return add_free(summary, event);
    case MT_EVENT_SEGMENT_MAP:
        map_segment(summary, event, id);
        return 0;
    case MT_EVENT_SEGMENT_UNMAP:
        unmap_segment(summary, event, id);
        return 0;
    case MT_EVENT_STEP_BEGIN:
        begin_step(summary, event, id);
        return 0;
    case MT_EVENT_STEP_END:
        end_step(summary, event, id);
        return 0;
    }
    return 0;
}

int64_t mt_summary_add(struct mt_summary *summary, const struct mt_event *event)
{
    int64_t id = summary->first_event + summary->events++;
    int64_t allocation = apply(summary, event, id);
    if (summary->events == summary->next_checkpoint)
        add_checkpoint(summary, id);
    return allocation;
}
