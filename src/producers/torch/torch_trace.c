#include "producers/torch/torch_trace.h"

#include "base/interner.h"

#include <assert.h>

struct mt_sink *mt_torch_trace_enter(struct mt_torch_trace *trace)
{
    mt_lock_take(&trace->lock);
    assert(trace->is_open == (trace->recorder != NULL));
    return &trace->target;
}

void mt_torch_trace_leave(struct mt_torch_trace *trace)
{
    mt_lock_give(&trace->lock);
}

static void emit(void *context, const struct mt_event *event)
{
    const struct mt_sink *target = mt_torch_trace_enter(context);
    if (target->emit != NULL)
        target->emit(target->context, event);
    mt_torch_trace_leave(context);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    const struct mt_sink *target = mt_torch_trace_enter(context);
    mt_label_id id = target->intern_label(target->context, label);
    mt_torch_trace_leave(context);
    return id;
}

static mt_span_id intern_span(void *context, mt_span_id parent, const char *name)
{
    const struct mt_sink *target = mt_torch_trace_enter(context);
    mt_span_id id = target->intern_span(target->context, parent, name);
    mt_torch_trace_leave(context);
    return id;
}

/* The recorder and the interner give the same numbers, since both get all names. */
static mt_category intern_category(void *context, const char *name)
{
    struct mt_torch_trace *trace = context;
    const struct mt_sink *target = mt_torch_trace_enter(context);
    mt_category category = mt_interner_category(trace->interner, name);
    if (trace->recorder != NULL)
        category = mt_sink_category(target, name);
    assert(category < MT_MOST_CATEGORIES);
    mt_torch_trace_leave(context);
    return category;
}

static const char *category_name(void *context, mt_category category)
{
    struct mt_torch_trace *trace = context;
    (void)mt_torch_trace_enter(context);
    const char *name = mt_interner_category_name(trace->interner, category);
    mt_torch_trace_leave(context);
    return name;
}

static mt_frame_id intern_frame(void *context, const struct mt_frame *frame)
{
    const struct mt_sink *target = mt_torch_trace_enter(context);
    mt_frame_id id = target->intern_frame(target->context, frame);
    mt_torch_trace_leave(context);
    return id;
}

static mt_stack_id intern_stack(void *context, mt_stack_id parent, mt_frame_id frame)
{
    const struct mt_sink *target = mt_torch_trace_enter(context);
    mt_stack_id id = target->intern_stack(target->context, parent, frame);
    mt_torch_trace_leave(context);
    return id;
}

struct mt_sink mt_torch_trace_sink(struct mt_torch_trace *trace)
{
    return (struct mt_sink){.context = trace,
                            .emit = trace->recorder != NULL ? emit : NULL,
                            .intern_label = intern_label,
                            .intern_category = intern_category,
                            .category_name = category_name,
                            .intern_span = intern_span,
                            .intern_frame = intern_frame,
                            .intern_stack = intern_stack};
}

void mt_torch_trace_begin(struct mt_torch_trace *trace)
{
    trace->is_open = trace->recorder != NULL;
    trace->interner = mt_interner_create();
    trace->target = trace->recorder != NULL ? *mt_recorder_sink(trace->recorder) : mt_sink_discarding(trace->interner);
}
