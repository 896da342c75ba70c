#include "api/joint_sink.h"

#include "base/clock.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

static bool has_segment(uint16_t kind)
{
    return kind == MT_EVENT_SEGMENT_MAP || kind == MT_EVENT_SEGMENT_UNMAP || kind == MT_EVENT_ALLOC ||
           kind == MT_EVENT_FREE || kind == MT_EVENT_RELABEL;
}

/* Returns the joint number of a segment. A source numbers its segments densely, and maps one before any other event of
 * it. */
static uint32_t joint_birth(struct mt_joint_source *source, uint32_t birth)
{
    assert(birth <= source->count);
    if (birth < source->count)
        return source->births[birth];
    *MT_HOST_ADD(source->births, source->count) = source->joint->births;
    return source->joint->births++;
}

/* Returns the time of the next event, never before the last one: the clocks of threads may differ a little. */
static uint64_t next_time_ns(struct mt_joint_sink *joint)
{
    uint64_t now = mt_joint_sink_now_ns(joint);
    if (now > joint->last_ns)
        joint->last_ns = now;
    return joint->last_ns;
}

/* Returns the target, for calls until `leave`. */
static const struct mt_sink *enter(void *context)
{
    struct mt_joint_sink *joint = ((struct mt_joint_source *)context)->joint;
    mt_lock_take(&joint->lock);
    return &joint->target;
}

static void leave(void *context)
{
    mt_lock_give(&((struct mt_joint_source *)context)->joint->lock);
}

static void emit(void *context, const struct mt_event *event)
{
    struct mt_joint_source *source = context;
    struct mt_event joined = *event;
    const struct mt_sink *target = enter(context);
    joined.sequence = source->joint->sequence++;
    joined.time_ns = next_time_ns(source->joint);
    if (has_segment(event->kind))
        joined.segment = joint_birth(source, event->segment);
    assert(event->kind < MT_EVENT_KIND_COUNT);
    target->emit(target->context, &joined);
    leave(context);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    const struct mt_sink *target = enter(context);
    mt_label_id id = target->intern_label(target->context, label);
    leave(context);
    return id;
}

static mt_category intern_category(void *context, const char *name)
{
    mt_category category = mt_sink_category(enter(context), name);
    leave(context);
    return category;
}

static const char *category_name(void *context, mt_category category)
{
    const char *name = mt_sink_category_name(enter(context), category);
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
    mt_frame_id id = target->intern_frame != NULL ? target->intern_frame(target->context, frame) : 0;
    leave(context);
    return id;
}

static mt_stack_id intern_stack(void *context, mt_stack_id parent, mt_frame_id frame)
{
    const struct mt_sink *target = enter(context);
    mt_stack_id id = target->intern_stack != NULL ? target->intern_stack(target->context, parent, frame) : 0;
    leave(context);
    return id;
}

void mt_joint_sink_create(struct mt_joint_sink *joint, const struct mt_sink *target)
{
    *joint = (struct mt_joint_sink){.target = *target, .start_ns = mt_clock_ns()};
    for (int i = 0; i < MT_JOINT_SOURCES; i++) {
        struct mt_joint_source *source = &joint->sources[i];
        source->joint = joint;
        source->sink = (struct mt_sink){.context = source,
                                        .emit = target->emit != NULL ? emit : NULL,
                                        .intern_label = intern_label,
                                        .intern_category = intern_category,
                                        .category_name = category_name,
                                        .intern_span = intern_span,
                                        .intern_frame = intern_frame,
                                        .intern_stack = intern_stack};
    }
}

void mt_joint_sink_release(struct mt_joint_sink *joint)
{
    for (int i = 0; i < MT_JOINT_SOURCES; i++)
        free(joint->sources[i].births);
}

uint64_t mt_joint_sink_now_ns(const struct mt_joint_sink *joint)
{
    return mt_clock_since_ns(joint->start_ns);
}
