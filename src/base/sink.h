/* Where events go. The allocator knows this and nothing of what is behind it.
 *
 * Threads: the allocator calls a sink under its own lock, so one call at a time and one order. */
#ifndef MT_BASE_SINK_H
#define MT_BASE_SINK_H

#include "base/event.h"
#include "base/status.h"

struct mt_sink {
    void *context;

    /* Takes one event (copies it). Returns nothing: watching must not change what is watched. A sink keeps its first
     * error and reports it when it is closed. The labels and spans that the event names were interned before. NULL: not
     * wanted. */
    void (*emit)(void *context, const struct mt_event *event);

    /* The id of a label, the same for equal ones. Copies it. Never 0. */
    mt_label_id (*intern_label)(void *context, const struct mt_label *label);

    /* The category of a name that a program gives, the same for equal ones: ours if it is one of ours,
     * MT_CATEGORY_OTHER if there are too many (mt_category_set_add says more). Copies it. NULL: names are not kept; see
     * mt_sink_category. */
    mt_category (*intern_category)(void *context, const char *name);

    /* What a category is called; valid as long as the sink. NULL where intern_category is. */
    const char *(*category_name)(void *context, mt_category category);

    /* The id of the span `name` inside `parent` (0: the root). Copies the name. Never 0. */
    mt_span_id (*intern_span)(void *context, mt_span_id parent, const char *name);

    /* Takes a kernel that a device ran, some time after it did; copies its name. NULL: not wanted. */
    void (*kernel)(void *context, const struct mt_kernel *kernel);

    /* Takes how a live block was used, before the event that frees it. NULL: not wanted. */
    void (*use)(void *context, const struct mt_use *use);

    /* Returns once everything emitted so far is where the sink keeps it, or its first error. NULL: nothing to do. */
    mt_status (*flush)(void *context);
};

/* As the sink's entries, for a sink that may not have them: then all names mean Other. */
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

#endif
