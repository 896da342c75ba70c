#include "torch/torch_trace.h"

#include "base/interner.h"
#include "base/lock.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Invariant: target is the recorder's sink while there is one, and one that forgets events otherwise. */
struct mt_torch_trace {
    struct mt_lock lock;
    struct mt_recorder *recorder; /* NULL: nothing is recorded */
    atomic_bool is_open;          /* whether there is one, for who has not the lock */
    struct mt_interner *interner; /* names categories, and all labels once the recording is over */
    struct mt_sink target;
};

mt_status mt_torch_trace_open(const char *path, const struct mt_run_info *info, struct mt_torch_trace **out)
{
    struct mt_recorder *recorder = NULL;
    mt_status status = path != NULL ? mt_recorder_open(path, info, &recorder) : MT_OK;
    if (status != MT_OK)
        return status;
    struct mt_torch_trace *trace = mt_host_alloc(sizeof *trace);
    trace->recorder = recorder;
    trace->is_open = recorder != NULL;
    trace->interner = mt_interner_create();
    trace->target = recorder != NULL ? *mt_recorder_sink(recorder) : mt_sink_discarding(trace->interner);
    *out = trace;
    return MT_OK;
}

static struct mt_sink *enter(void *context)
{
    struct mt_torch_trace *trace = context;
    mt_lock_take(&trace->lock);
    return &trace->target;
}

static void leave(void *context)
{
    mt_lock_give(&((struct mt_torch_trace *)context)->lock);
}

static void emit(void *context, const struct mt_event *event)
{
    const struct mt_sink *target = enter(context);
    if (target->emit != NULL)
        target->emit(target->context, event);
    leave(context);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    const struct mt_sink *target = enter(context);
    mt_label_id id = target->intern_label(target->context, label);
    leave(context);
    return id;
}

static mt_span_id intern_span(void *context, mt_span_id parent, const char *name)
{
    const struct mt_sink *target = enter(context);
    mt_span_id id = target->intern_span(target->context, parent, name);
    leave(context);
    return id;
}

/* Both give the same numbers, since both are told all names. */
static mt_category intern_category(void *context, const char *name)
{
    struct mt_torch_trace *trace = context;
    const struct mt_sink *target = enter(context);
    mt_category category = mt_interner_category(trace->interner, name);
    if (trace->recorder != NULL)
        category = mt_sink_category(target, name);
    leave(context);
    return category;
}

static const char *category_name(void *context, mt_category category)
{
    struct mt_torch_trace *trace = context;
    (void)enter(context);
    const char *name = mt_interner_category_name(trace->interner, category);
    leave(context);
    return name;
}

static mt_status flush(void *context)
{
    const struct mt_sink *target = enter(context);
    mt_status status = target->flush != NULL ? target->flush(target->context) : MT_OK;
    leave(context);
    return status;
}

/* An allocator of which nothing is recorded need not make its events. */
struct mt_sink mt_torch_trace_sink(struct mt_torch_trace *trace)
{
    return (struct mt_sink){.context = trace,
                            .emit = trace->recorder != NULL ? emit : NULL,
                            .intern_label = intern_label,
                            .intern_category = intern_category,
                            .category_name = category_name,
                            .intern_span = intern_span,
                            .flush = flush};
}

bool mt_torch_trace_is_open(const struct mt_torch_trace *trace)
{
    return atomic_load_explicit(&trace->is_open, memory_order_relaxed);
}

void mt_torch_trace_measure(struct mt_torch_trace *trace, const char *name, int64_t step, double value)
{
    (void)enter(trace);
    if (trace->recorder != NULL)
        mt_recorder_measure(trace->recorder, name, step, value);
    leave(trace);
}

mt_status mt_torch_trace_end(struct mt_torch_trace *trace, mt_run_state state)
{
    (void)enter(trace);
    struct mt_recorder *recorder = trace->recorder;
    trace->recorder = NULL;
    trace->is_open = false;
    trace->target = mt_sink_discarding(trace->interner);
    leave(trace);
    return mt_recorder_close(recorder, state);
}

void mt_torch_trace_destroy(struct mt_torch_trace *trace)
{
    if (trace == NULL)
        return;
    mt_interner_destroy(trace->interner);
    free(trace);
}
