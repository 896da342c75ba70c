#include "api/joint_sink.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdlib.h>

static bool has_segment(uint16_t kind)
{
    return kind == MT_EVENT_SEGMENT_MAP || kind == MT_EVENT_SEGMENT_UNMAP || kind == MT_EVENT_ALLOC ||
           kind == MT_EVENT_FREE;
}

/* Births of a source are dense, and the first event that names one is the map that begins it. */
static uint32_t joint_birth(struct mt_joint_source *source, uint32_t birth)
{
    if (birth < source->count)
        return source->births[birth];
    source->births = mt_host_room(source->births, source->count, sizeof *source->births);
    source->births[source->count++] = source->joint->births;
    return source->joint->births++;
}

/* Events of threads whose clocks differ a little keep their order. */
static uint64_t next_time_ns(struct mt_joint_sink *joint)
{
    uint64_t now = mt_joint_sink_now_ns(joint);
    if (now > joint->last_ns)
        joint->last_ns = now;
    return joint->last_ns;
}

static void emit(void *context, const struct mt_event *event)
{
    struct mt_joint_source *source = context;
    struct mt_joint_sink *joint = source->joint;
    struct mt_event joined = *event;
    mt_lock_take(&joint->lock);
    joined.sequence = joint->sequence++;
    joined.time_ns = next_time_ns(joint);
    if (has_segment(event->kind))
        joined.segment = joint_birth(source, event->segment);
    joint->target.emit(joint->target.context, &joined);
    mt_lock_give(&joint->lock);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    struct mt_joint_sink *joint = ((struct mt_joint_source *)context)->joint;
    mt_lock_take(&joint->lock);
    mt_label_id id = joint->target.intern_label(joint->target.context, label);
    mt_lock_give(&joint->lock);
    return id;
}

static mt_category intern_category(void *context, const char *name)
{
    struct mt_joint_sink *joint = ((struct mt_joint_source *)context)->joint;
    mt_lock_take(&joint->lock);
    mt_category category = mt_sink_category(&joint->target, name);
    mt_lock_give(&joint->lock);
    return category;
}

static const char *category_name(void *context, mt_category category)
{
    struct mt_joint_sink *joint = ((struct mt_joint_source *)context)->joint;
    mt_lock_take(&joint->lock);
    const char *name = mt_sink_category_name(&joint->target, category);
    mt_lock_give(&joint->lock);
    return name;
}

static mt_span_id intern_span(void *context, mt_span_id parent, const char *name)
{
    struct mt_joint_sink *joint = ((struct mt_joint_source *)context)->joint;
    mt_lock_take(&joint->lock);
    mt_span_id id = joint->target.intern_span(joint->target.context, parent, name);
    mt_lock_give(&joint->lock);
    return id;
}

static mt_status flush(void *context)
{
    struct mt_joint_sink *joint = ((struct mt_joint_source *)context)->joint;
    if (joint->target.flush == NULL)
        return MT_OK;
    mt_lock_take(&joint->lock);
    mt_status status = joint->target.flush(joint->target.context);
    mt_lock_give(&joint->lock);
    return status;
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
                                        .flush = flush};
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
