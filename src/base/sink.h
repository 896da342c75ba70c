/* A receiver of events: all that the allocator knows of the trace.
 *
 * The allocator calls a sink under its own lock, so the calls come one at a time and in one order. */
#pragma once

#include "base/event.h"
#include "base/status.h"

struct mt_sink {
    void *context;

    /* Stores a copy of the event. It can't fail, because recording must not change the program: a sink keeps its first
     * error and reports it when it is closed. The labels and spans of the event were interned before. NULL: not
     * wanted. */
    void (*emit)(void *context, const struct mt_event *event);

    /* Returns the id of a label, the same for equal ones and never 0. Copies it. */
    mt_label_id (*intern_label)(void *context, const struct mt_label *label);

    /* Returns the category of a name, as mt_category_set_add does. NULL: names are not kept; see mt_sink_category. */
    mt_category (*intern_category)(void *context, const char *name);

    /* Returns the name of a category, which lives as long as the sink. NULL where intern_category is. */
    const char *(*category_name)(void *context, mt_category category);

    /* Returns the id of the span `name` inside `parent` (0: the root), never 0. Copies the name. */
    mt_span_id (*intern_span)(void *context, mt_span_id parent, const char *name);

    /* Return the id of a frame of a call stack, and of the stack whose innermost frame it is, called from `parent` (0:
     * the bottom): the same for equal ones, never 0. Copy the texts. NULL: not kept; see mt_sink_stack. */
    mt_frame_id (*intern_frame)(void *context, const struct mt_frame *frame);
    mt_stack_id (*intern_stack)(void *context, mt_stack_id parent, mt_frame_id frame);

    /* Stores a kernel, some time after the device ran it; copies its name. NULL: not wanted. */
    void (*kernel)(void *context, const struct mt_kernel *kernel);

    /* Stores what holds memory outside of the allocator from now on; copies its name. NULL: not wanted. */
    void (*outside)(void *context, const struct mt_outside *outside);

    /* Stores the uses of a live block, before the event that frees it. NULL: not wanted. */
    void (*use)(void *context, const struct mt_use *use);
};

/* Call the sink's entry where it has one; elsewhere every name means MT_CATEGORY_OTHER. */
static inline mt_category mt_sink_category(const struct mt_sink *sink, const char *name)
{
    return sink->intern_category != NULL ? sink->intern_category(sink->context, name) : MT_CATEGORY_OTHER;
}

static inline const char *mt_sink_category_name(const struct mt_sink *sink, mt_category category)
{
    if (category < MT_CATEGORY_COUNT || sink->category_name == NULL)
        return mt_category_name(category < MT_CATEGORY_COUNT ? category : MT_CATEGORY_OTHER);
    return sink->category_name(sink->context, category);
}

/* Returns the stack of a frame that `parent` called; 0 where stacks are not kept. */
static inline mt_stack_id mt_sink_stack(const struct mt_sink *sink, mt_stack_id parent, const struct mt_frame *frame)
{
    if (sink->intern_frame == NULL || sink->intern_stack == NULL)
        return 0;
    return sink->intern_stack(sink->context, parent, sink->intern_frame(sink->context, frame));
}
