/* A sink that keeps every event and every use. */
#pragma once

#include "base/interner.h"
#include "base/memory.h"
#include "base/sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct recording {
    struct mt_interner *interner;
    struct mt_event *events;
    size_t count, capacity;
    struct mt_use *uses;
    size_t use_count, use_capacity;
};

static void recording_emit(void *context, const struct mt_event *event)
{
    struct recording *recording = context;
    if (recording->count == recording->capacity) {
        recording->capacity = recording->capacity * 2 + 1024;
        recording->events = mt_host_resize(recording->events, recording->capacity, sizeof *event);
    }
    recording->events[recording->count++] = *event;
}

static void recording_use(void *context, const struct mt_use *use)
{
    struct recording *recording = context;
    if (recording->use_count == recording->use_capacity) {
        recording->use_capacity = recording->use_capacity * 2 + 1024;
        recording->uses = mt_host_resize(recording->uses, recording->use_capacity, sizeof *use);
    }
    recording->uses[recording->use_count++] = *use;
}

static mt_label_id recording_label(void *context, const struct mt_label *label)
{
    return mt_interner_label(((struct recording *)context)->interner, label, NULL);
}

static mt_span_id recording_span(void *context, mt_span_id parent, const char *name)
{
    return mt_interner_span(((struct recording *)context)->interner, parent, name, NULL);
}

static inline void recording_open(struct recording *recording)
{
    *recording = (struct recording){.interner = mt_interner_create()};
}

static inline void recording_close(struct recording *recording)
{
    mt_interner_destroy(recording->interner);
    free(recording->events);
    free(recording->uses);
}

static inline struct mt_sink recording_sink(struct recording *recording)
{
    return (struct mt_sink){.context = recording,
                            .emit = recording_emit,
                            .intern_label = recording_label,
                            .intern_span = recording_span,
                            .use = recording_use};
}

static inline const struct mt_label *recording_label_of(const struct recording *recording, const struct mt_event *event)
{
    return mt_interner_find_label(recording->interner, event->label);
}

/* Checks that every block has a label with an op, a category, a phase and the span of its event. */
static inline void recording_expect_labels(const struct recording *recording)
{
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        if (event->kind != MT_EVENT_ALLOC && event->kind != MT_EVENT_FREE)
            continue;
        const struct mt_label *label = recording_label_of(recording, event);
        assert_non_null(label);
        assert_true(label->op[0] != '\0' && label->category < MT_CATEGORY_COUNT && label->phase < MT_PHASE_COUNT);
        assert_true(label->span == event->span && event->span != 0);
    }
}

/* True if two events are equal but for address and time. */
static inline bool recording_event_equal(const struct mt_event *a, const struct mt_event *b)
{
    return a->sequence == b->sequence && a->kind == b->kind &&
           (a->kind <= MT_EVENT_SEGMENT_UNMAP || a->requested_bytes == b->requested_bytes) &&
           a->block_bytes == b->block_bytes && a->segment == b->segment && a->offset == b->offset &&
           a->label == b->label && a->span == b->span && a->stream == b->stream;
}

/* Returns the number of the first event in which two recordings differ, or that only one has; -1 if they are equal. */
static inline long recording_first_difference(const struct recording *a, const struct recording *b)
{
    size_t i = 0;
    while (i < a->count && i < b->count && recording_event_equal(&a->events[i], &b->events[i]))
        i++;
    return i == a->count && i == b->count ? -1 : (long)i;
}

/* Sets *first to the first event of a step; returns the number of its events. */
static inline size_t recording_step(const struct recording *recording, uint64_t step, const struct mt_event **first)
{
    size_t begin = 0, end = 0;
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        if (event->kind == MT_EVENT_STEP_BEGIN && event->value == step)
            begin = i;
        if (event->kind == MT_EVENT_STEP_END && event->value == step)
            end = i;
    }
    *first = recording->events + begin;
    return end - begin;
}
