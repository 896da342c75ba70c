#include "run/locked_sink.h"

#include "base/clock.h"
#include "base/interner.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

struct mt_sink *mt_locked_sink_enter(struct mt_locked_sink *locked)
{
    mt_lock_take(&locked->lock);
    return &locked->target;
}

void mt_locked_sink_leave(struct mt_locked_sink *locked)
{
    mt_lock_give(&locked->lock);
}

/* The same for the context of a source's sink. */
static const struct mt_sink *enter(void *context)
{
    return mt_locked_sink_enter(((struct mt_locked_source *)context)->locked);
}

static void leave(void *context)
{
    mt_locked_sink_leave(((struct mt_locked_source *)context)->locked);
}

/* ---- events ---- */

static bool has_segment(uint16_t kind)
{
    return kind == MT_EVENT_SEGMENT_MAP || kind == MT_EVENT_SEGMENT_UNMAP || kind == MT_EVENT_ALLOC ||
           kind == MT_EVENT_FREE || kind == MT_EVENT_RELABEL;
}

/* Returns the common number of a segment. A source numbers its segments densely, and maps one before any other event of
 * the segment. */
static uint32_t joint_birth(struct mt_locked_source *source, uint32_t birth)
{
    assert(birth <= source->count);
    if (birth < source->count)
        return source->births[birth];
    *MT_HOST_ADD(source->births, source->count) = source->locked->births;
    return source->locked->births++;
}

/* Returns the time of the next event. Never earlier than the last one: the clocks of threads may differ slightly. */
static uint64_t next_time_ns(struct mt_locked_sink *locked)
{
    uint64_t now = mt_locked_sink_now_ns(locked);
    if (now > locked->last_ns)
        locked->last_ns = now;
    return locked->last_ns;
}

static void emit_joint(void *context, const struct mt_event *event)
{
    struct mt_locked_source *source = context;
    struct mt_event joined = *event;
    const struct mt_sink *target = enter(context);
    joined.sequence = source->locked->sequence++;
    joined.time_ns = next_time_ns(source->locked);
    if (has_segment(event->kind))
        joined.segment = joint_birth(source, event->segment);
    assert(event->kind < MT_EVENT_KIND_COUNT);
    if (target->emit != NULL)
        target->emit(target->context, &joined);
    leave(context);
}

static void emit(void *context, const struct mt_event *event)
{
    const struct mt_sink *target = enter(context);
    if (target->emit != NULL)
        target->emit(target->context, event);
    leave(context);
}

static void store_outside(void *context, const struct mt_outside *outside)
{
    const struct mt_sink *target = enter(context);
    if (target->outside != NULL)
        target->outside(target->context, outside);
    leave(context);
}

static void store_use(void *context, const struct mt_use *use)
{
    const struct mt_sink *target = enter(context);
    if (target->use != NULL)
        target->use(target->context, use);
    leave(context);
}

/* ---- names ---- */

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    const struct mt_sink *target = enter(context);
    mt_label_id id = target->intern_label(target->context, label);
    leave(context);
    return id;
}

/* The target and `names` have equal numbers, since both get all names. */
static mt_category intern_category(void *context, const char *name)
{
    const struct mt_sink *target = enter(context);
    struct mt_locked_sink *locked = ((struct mt_locked_source *)context)->locked;
    mt_category category = mt_interner_category(locked->names, name);
    if (atomic_load_explicit(&locked->is_open, memory_order_relaxed))
        category = mt_sink_category(target, name);
    assert(category < MT_MOST_CATEGORIES);
    leave(context);
    return category;
}

static const char *category_name(void *context, mt_category category)
{
    (void)enter(context);
    const char *name = mt_interner_category_name(((struct mt_locked_source *)context)->locked->names, category);
    leave(context);
    return name;
}

static mt_span_id intern_span(void *context, mt_span_id parent, const char *name)
{
    const struct mt_sink *target = enter(context);
    mt_span_id id = target->intern_span(target->context, parent, name);
    leave(context);
    return id;
}

static mt_frame_id intern_frame(void *context, const struct mt_frame *frame)
{
    const struct mt_sink *target = enter(context);
    mt_frame_id id = target->intern_frame(target->context, frame);
    leave(context);
    return id;
}

static mt_stack_id intern_stack(void *context, mt_stack_id parent, mt_frame_id frame)
{
    const struct mt_sink *target = enter(context);
    mt_stack_id id = target->intern_stack(target->context, parent, frame);
    leave(context);
    return id;
}

/* ---- creation and end ---- */

void mt_locked_sink_create(struct mt_locked_sink *locked, const struct mt_sink *target, int source_count)
{
    assert(source_count >= 1 && source_count <= MT_LOCKED_SOURCES);
    *locked =
        (struct mt_locked_sink){.is_open = target != NULL, .names = mt_interner_create(), .start_ns = mt_clock_ns()};
    mt_lock_create(&locked->lock, MT_RANK_SINK);
    locked->target = target != NULL ? *target : mt_sink_discarding(locked->names);
    void (*const passing)(void *, const struct mt_event *) = source_count > 1 ? emit_joint : emit;
    for (int i = 0; i < source_count; i++) {
        struct mt_locked_source *source = &locked->sources[i];
        source->locked = locked;
        source->sink = (struct mt_sink){.context = source,
                                        .emit = locked->target.emit != NULL ? passing : NULL,
                                        .use = source_count == 1 && locked->target.use != NULL ? store_use : NULL,
                                        .intern_label = intern_label,
                                        .intern_category = intern_category,
                                        .category_name = category_name,
                                        .intern_span = intern_span,
                                        .intern_frame = intern_frame,
                                        .intern_stack = intern_stack,
                                        .outside = store_outside};
    }
}

void mt_locked_sink_end(struct mt_locked_sink *locked)
{
    mt_lock_take(&locked->lock);
    locked->is_open = false;
    locked->target = mt_sink_discarding(locked->names);
    mt_lock_give(&locked->lock);
}

void mt_locked_sink_release(struct mt_locked_sink *locked)
{
    for (int i = 0; i < MT_LOCKED_SOURCES; i++)
        free(locked->sources[i].births);
    mt_interner_destroy(locked->names);
}

uint64_t mt_locked_sink_now_ns(const struct mt_locked_sink *locked)
{
    return mt_clock_since_ns(locked->start_ns);
}
