#include "trace/store/summary.h"

#include "base/memory.h"
#include "trace/store/segment_rows.h"
#include "trace/store/summary_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKPOINT_EVENTS = 4096, CHECKPOINT_LIVE_FACTOR = 4 };
enum { RESERVED_ONLY = 1u << MT_MEASURE_RESERVED, ALL_MEASURES = (1u << MT_MEASURE_COUNT) - 1 };

/* The running totals. Invariant, unless the trace is damaged: now[allocated] and now[requested] are the sums over
 * live.category, which is 0 from category_count on. */
struct totals {
    uint32_t category_count;
    uint64_t now[MT_MEASURE_COUNT];
    struct mt_composition live;
};

/* The category, role and phase of a label. */
struct summary_label {
    unsigned char category, role, phase;
};

/* Invariants: the next event has the id first_event + events; scopes[scope_count - 1] is the current step; events <
 * next_checkpoint; steps_stored <= step_count. Unless the trace is damaged, the run's peaks are never lower than the
 * peaks of its scopes. */
struct mt_summary {
    int64_t first_event, events;
    struct mt_live live;
    struct totals totals;
    struct mt_peaks run_peaks;
    uint64_t empty_maps;    /* segments, or parts of them, that were mapped before the first block */
    bool is_reserved_empty; /* the run's peak of reserved bytes was reached with several of them */
    uint64_t fullest_bytes; /* allocated bytes at the moment that represents that peak */
    struct mt_allocations allocations;

    struct mt_category_set categories; /* in the order of their first labels, unlike the upper bits of label ids */
    struct summary_label *labels;      /* by number; Other, init for labels that are missing */
    size_t label_count;

    struct mt_summary_scope **scopes; /* in order; scopes that are stored are freed */
    size_t scope_count;

    struct mt_segment_rows segments;

    struct mt_summary_step *steps;
    size_t step_count;
    size_t steps_stored; /* rows that are stored and complete */

    struct mt_summary_checkpoint *checkpoints; /* not stored yet */
    size_t checkpoint_count;
    int64_t next_checkpoint; /* due at this number of events */
};

static __attribute__((unused)) bool is_sound(const struct mt_summary *summary)
{
    return summary->scope_count >= 1 && summary->events < summary->next_checkpoint &&
           summary->steps_stored <= summary->step_count && summary->totals.category_count <= MT_MOST_CATEGORIES;
}

static struct mt_summary_scope *current_scope(struct mt_summary *summary)
{
    assert(summary->scope_count >= 1);
    return summary->scopes[summary->scope_count - 1];
}

/* Begins peaks at `event`, with the current totals. */
static void begin_peaks(struct mt_peaks *peaks, const struct totals *totals, int64_t event)
{
    *peaks = (struct mt_peaks){.stale = ALL_MEASURES};
    for (int i = 0; i < MT_MEASURE_COUNT; i++) {
        peaks->measure[i].bytes = totals->now[i];
        peaks->measure[i].event = event;
    }
}

/* Copies the composition of the stale measures in `mask`. Must be called before the totals decrease or their
 * composition changes. Only then is a peak's composition copied: as long as bytes grow, which is most of a step, a new
 * peak costs a comparison. */
static void settle_peaks(struct mt_peaks *peaks, const struct totals *totals, unsigned mask)
{
    size_t bytes = offsetof(struct mt_composition, category[totals->category_count]);
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        if (peaks->stale & mask & 1u << i)
            memcpy(&peaks->measure[i].at, &totals->live, bytes);
    peaks->stale &= ~mask;
}

/* Raises the peaks to the totals, which grew. */
static inline void raise_to(struct mt_peaks *peaks, const struct totals *totals, int64_t event)
{
    for (int i = 0; i < MT_MEASURE_COUNT; i++) {
        if (totals->now[i] <= peaks->measure[i].bytes)
            continue;
        peaks->measure[i].bytes = totals->now[i];
        peaks->measure[i].event = event;
        peaks->stale |= 1u << i;
    }
}

static void begin_scope(struct mt_summary *summary, int64_t step, int64_t event)
{
    struct mt_summary_scope *scope = *MT_HOST_ADD(summary->scopes, summary->scope_count) = mt_host_alloc(sizeof *scope);
    scope->step = step;
    begin_peaks(&scope->peaks, &summary->totals, event);
}

struct mt_summary *mt_summary_create(int64_t first_event)
{
    struct mt_summary *summary = mt_host_alloc(sizeof *summary);
    summary->first_event = first_event;
    summary->next_checkpoint = CHECKPOINT_EVENTS;
    summary->totals.category_count = mt_category_set_count(&summary->categories);
    mt_live_create(&summary->live);
    mt_allocations_create(&summary->allocations);
    mt_segment_rows_create(&summary->segments);
    begin_peaks(&summary->run_peaks, &summary->totals, first_event);
    begin_scope(summary, MT_STEP_BEFORE, first_event);
    return summary;
}

void mt_summary_destroy(struct mt_summary *summary)
{
    if (summary == NULL)
        return;
    mt_live_release(&summary->live);
    mt_allocations_release(&summary->allocations);
    mt_segment_rows_release(&summary->segments);
    for (size_t i = 0; i < summary->scope_count; i++)
        free(summary->scopes[i]);
    for (size_t i = 0; i < summary->checkpoint_count; i++)
        free(summary->checkpoints[i].live);
    free(summary->labels);
    mt_category_set_release(&summary->categories);
    free(summary->scopes);
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

/* Adds entries for missing labels up to a number. */
static void add_labels_up_to(struct mt_summary *summary, uint32_t number)
{
    while (summary->label_count <= number)
        *MT_HOST_ADD(summary->labels, summary->label_count) =
            (struct summary_label){.category = MT_CATEGORY_OTHER, .role = MT_ROLE_OTHER};
}

void mt_summary_add_label(struct mt_summary *summary, uint32_t number, const char *category, mt_role role,
                          mt_phase phase)
{
    assert(role < MT_ROLE_COUNT && phase < MT_PHASE_COUNT);
    add_labels_up_to(summary, number);
    summary->labels[number] =
        (struct summary_label){.category = (unsigned char)mt_category_set_add(&summary->categories, category),
                               .role = (unsigned char)role,
                               .phase = (unsigned char)phase};
    summary->totals.category_count = mt_category_set_count(&summary->categories);
    assert(summary->labels[number].category < summary->totals.category_count);
}

static inline struct summary_label label_numbered(const struct mt_summary *summary, uint32_t number)
{
    return number < summary->label_count ? summary->labels[number]
                                         : (struct summary_label){.category = MT_CATEGORY_OTHER, .role = MT_ROLE_OTHER};
}

static inline struct summary_label label_of(const struct mt_summary *summary, const struct mt_event *event)
{
    return label_numbered(summary, mt_label_number(event->label));
}

/* Settles the peaks. Must be called before the live blocks or the segments change. */
static void settle(struct mt_summary *summary, unsigned measures)
{
    struct mt_summary_scope *scope = current_scope(summary);
    if ((scope->peaks.stale & measures) != 0)
        settle_peaks(&scope->peaks, &summary->totals, measures);
    if ((summary->run_peaks.stale & measures) != 0)
        settle_peaks(&summary->run_peaks, &summary->totals, measures);
}

/* Moves the run's peak of reserved bytes to an equal one with more allocated bytes, if it came before any block. An
 * allocator reserves one segment for the next block, but a program that is watched late has all of its memory at the
 * beginning. */
static void prefer_fuller(struct mt_summary *summary, int64_t id)
{
    struct mt_peak *peak = &summary->run_peaks.measure[MT_MEASURE_RESERVED];
    uint64_t allocated = summary->totals.now[MT_MEASURE_ALLOCATED];
    if (peak->event == id) {
        summary->empty_maps += allocated == 0;
        summary->is_reserved_empty = allocated == 0 && summary->empty_maps > 1;
    } else if (!summary->is_reserved_empty || summary->totals.now[MT_MEASURE_RESERVED] != peak->bytes ||
               allocated <= summary->fullest_bytes) {
        return;
    }
    peak->event = id;
    summary->run_peaks.stale |= RESERVED_ONLY;
    summary->fullest_bytes = allocated;
}

static void raise_peaks(struct mt_summary *summary, int64_t id)
{
    raise_to(&current_scope(summary)->peaks, &summary->totals, id);
    raise_to(&summary->run_peaks, &summary->totals, id);
    prefer_fuller(summary, id);
}

static void count_allocation(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    const struct summary_label label = label_of(summary, event);
    struct mt_summary_count *count = &current_scope(summary)->counts[label.phase][label.category];
    count->count++;
    count->total_bytes += event->requested_bytes;
    if (event->requested_bytes > count->max_bytes)
        count->max_bytes = event->requested_bytes;
    mt_allocations_add(&summary->allocations, mt_label_number(event->label), event->requested_bytes, id);
}

static void add_to(struct mt_live_total *total, const struct mt_event *event)
{
    total->allocated_bytes += event->block_bytes;
    total->requested_bytes += event->requested_bytes;
    total->blocks++;
}

static void take_from(struct mt_live_total *total, const struct mt_event *event)
{
    total->allocated_bytes -= event->block_bytes;
    total->requested_bytes -= event->requested_bytes;
    total->blocks--;
}

static void count_in(struct mt_summary *summary, const struct mt_event *event)
{
    const struct summary_label label = label_of(summary, event);
    add_to(&summary->totals.live.category[label.category], event);
    add_to(&summary->totals.live.role[label.role], event);
}

/* Subtracts the event's block from the sums of its old label. */
static void count_out(struct mt_summary *summary, uint32_t number, const struct mt_event *event)
{
    const struct summary_label label = label_numbered(summary, number);
    take_from(&summary->totals.live.category[label.category], event);
    take_from(&summary->totals.live.role[label.role], event);
}

static void add_alloc(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    settle(summary, RESERVED_ONLY);
    mt_live_add(&summary->live, mt_event_place(event), id, mt_label_number(event->label));
    count_in(summary, event);
    summary->totals.now[MT_MEASURE_ALLOCATED] += event->block_bytes;
    summary->totals.now[MT_MEASURE_REQUESTED] += event->requested_bytes;
    raise_peaks(summary, id);
    count_allocation(summary, event, id);
}

static int64_t add_free(struct mt_summary *summary, const struct mt_event *event)
{
    int64_t allocation = mt_live_take(&summary->live, mt_event_place(event));
    if (allocation == 0)
        return 0;
    settle(summary, ALL_MEASURES);
    count_out(summary, mt_label_number(event->label), event);
    summary->totals.now[MT_MEASURE_ALLOCATED] -= event->block_bytes;
    summary->totals.now[MT_MEASURE_REQUESTED] -= event->requested_bytes;
    return allocation;
}

/* A block with a new label counts as an allocation of that label, too. */
static int64_t relabel(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    struct mt_live_block *block = mt_live_find(&summary->live, mt_event_place(event));
    if (block == NULL)
        return 0;
    settle(summary, ALL_MEASURES);
    count_out(summary, block->label, event);
    block->label = mt_label_number(event->label);
    count_in(summary, event);
    count_allocation(summary, event, id);
    return block->event;
}

static void map_segment(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    summary->totals.now[MT_MEASURE_RESERVED] += mt_segment_rows_map(&summary->segments, event, id);
    raise_peaks(summary, id);
}

static void unmap_segment(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    settle(summary, RESERVED_ONLY);
    summary->totals.now[MT_MEASURE_RESERVED] -= mt_segment_rows_unmap(&summary->segments, event, id);
}

static void begin_step(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    settle(summary, ALL_MEASURES);
    begin_scope(summary, (int64_t)event->value, id);
    *MT_HOST_ADD(summary->steps, summary->step_count) =
        (struct mt_summary_step){.number = (int64_t)event->value, .first_event = id, .begin_ns = event->time_ns};
}

static void end_step(struct mt_summary *summary, const struct mt_event *event, int64_t id)
{
    if (summary->step_count == 0)
        return;
    struct mt_summary_step *step = &summary->steps[summary->step_count - 1];
    assert(step->first_event < id);
    step->last_event = id;
    step->end_ns = event->time_ns;
}

/* The distance to the next checkpoint grows with the live set, like a checkpoint's size. So checkpoints cost half a
 * byte per event. */
static void add_checkpoint(struct mt_summary *summary, int64_t id)
{
    struct mt_summary_checkpoint *checkpoint = MT_HOST_ADD(summary->checkpoints, summary->checkpoint_count);
    checkpoint->event = id;
    checkpoint->live_bytes = mt_live_encode(&summary->live, summary->first_event, &checkpoint->live);
    int64_t distance = CHECKPOINT_LIVE_FACTOR * (int64_t)summary->live.count;
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
    case MT_EVENT_RELABEL:
        return relabel(summary, event, id);
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
    assert(allocation <= id && is_sound(summary));
    return allocation;
}

int64_t mt_summary_find(const struct mt_summary *summary, mt_addr address)
{
    struct mt_place place;
    if (!mt_segment_rows_find(&summary->segments, address, &place.segment, &place.offset))
        return 0;
    const struct mt_live_block *block = mt_live_find(&summary->live, place);
    return block != NULL ? block->event : 0;
}

const uint64_t *mt_summary_now(const struct mt_summary *summary)
{
    return summary->totals.now;
}

const char *mt_summary_category(const struct mt_summary *summary, uint32_t category)
{
    return mt_category_set_name(&summary->categories, (mt_category)category);
}

uint64_t mt_summary_category_bytes(const struct mt_summary *summary, uint32_t category)
{
    assert(category < MT_MOST_CATEGORIES);
    return summary->totals.live.category[category].allocated_bytes;
}

uint64_t mt_summary_role_bytes(const struct mt_summary *summary, mt_role role)
{
    assert((unsigned)role < MT_ROLE_COUNT);
    return summary->totals.live.role[role].allocated_bytes;
}

/* A step that has not ended is written again when it has. */
static mt_status store_steps(struct mt_summary *summary, struct mt_database *database, int64_t run, const char *prefix)
{
    size_t stored = summary->steps_stored, count = summary->step_count;
    if (stored == count)
        return MT_OK;
    mt_status status = mt_summary_write_step_rows(database, run, prefix, summary->steps + stored, count - stored);
    summary->steps_stored = count - (summary->steps[count - 1].last_event == 0);
    return status;
}

static void forget_checkpoints(struct mt_summary *summary)
{
    for (size_t i = 0; i < summary->checkpoint_count; i++)
        free(summary->checkpoints[i].live);
    summary->checkpoint_count = 0;
}

static mt_status store_checkpoints(struct mt_summary *summary, struct mt_database *database, int64_t run,
                                   const char *prefix)
{
    mt_status status =
        mt_summary_write_checkpoint_rows(database, run, prefix, summary->checkpoints, summary->checkpoint_count);
    forget_checkpoints(summary);
    return status;
}

/* Frees finished steps, so that a long run needs no more memory than a short one. */
static void forget_scopes(struct mt_summary *summary)
{
    const size_t over = summary->scope_count - 1;
    for (size_t i = 0; i < over; i++)
        free(summary->scopes[i]);
    summary->scopes[0] = summary->scopes[over];
    summary->scope_count = 1;
}

static mt_status store_scopes(struct mt_summary *summary, struct mt_database *database, int64_t run, const char *prefix)
{
    size_t over = summary->scope_count - 1;
    if (over == 0)
        return MT_OK;
    mt_status status = mt_summary_write_total_rows(database, run, prefix,
                                                   &(struct mt_summary_totals){.categories = &summary->categories,
                                                                               .scopes = summary->scopes,
                                                                               .scope_count = over});
    forget_scopes(summary);
    return status;
}

void mt_summary_forget_progress(struct mt_summary *summary)
{
    mt_segment_rows_forget_changes(&summary->segments);
    summary->steps_stored = summary->step_count;
    forget_scopes(summary);
    forget_checkpoints(summary);
    assert(is_sound(summary));
}

mt_status mt_summary_store_progress(struct mt_summary *summary, struct mt_database *database, int64_t run,
                                    const char *prefix)
{
    mt_status status = mt_segment_rows_store(&summary->segments, database, run, prefix);
    MT_THEN(status, store_steps(summary, database, run, prefix));
    MT_THEN(status, store_scopes(summary, database, run, prefix));
    MT_THEN(status, store_checkpoints(summary, database, run, prefix));
    assert(is_sound(summary));
    return status;
}

mt_status mt_summary_store_totals(struct mt_summary *summary, struct mt_database *database, int64_t run,
                                  const char *prefix)
{
    settle(summary, ALL_MEASURES); /* peaks that are stale have the current composition */
    return mt_summary_write_total_rows(database, run, prefix,
                                       &(struct mt_summary_totals){.categories = &summary->categories,
                                                                   .run_peaks = &summary->run_peaks,
                                                                   .scopes = summary->scopes,
                                                                   .scope_count = summary->scope_count,
                                                                   .allocations = &summary->allocations});
}
