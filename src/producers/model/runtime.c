#include "producers/model/runtime.h"

#include <assert.h>
#include <stdio.h>

void mt_runtime_open(struct mt_runtime *rt, struct mt_device *device, struct mt_alloc *alloc)
{
    assert(device != NULL && alloc != NULL);
    *rt = (struct mt_runtime){.device = device, .alloc = alloc, .grad_enabled = true, .scope = {.layer = -1}};
    mt_runtime_phase(rt, MT_PHASE_INIT);
}

void mt_runtime_fail(struct mt_runtime *rt, mt_status status)
{
    rt->status = mt_status_keep(rt->status, status);
}

void mt_runtime_settle(struct mt_runtime *rt, mt_status (*act)(void *context), void *context)
{
    const struct mt_error first = mt_error_save(rt->status);
    mt_status settled = act(context);
    mt_runtime_fail(rt, mt_error_restore(&first, settled));
}

void mt_runtime_mark(struct mt_runtime *rt, int number)
{
    assert(number >= 0 && number <= MT_STEP_END_MARK);
    if (rt->status == MT_OK)
        mt_runtime_fail(rt, mt_device_mark(rt->device, number));
}

void mt_runtime_synchronize(struct mt_runtime *rt)
{
    if (rt->status == MT_OK)
        mt_runtime_fail(rt, mt_device_synchronize(rt->device));
}

double mt_runtime_elapsed_ms(struct mt_runtime *rt, int from, int to)
{
    double ms = 0;
    assert(from < to);
    if (rt->status == MT_OK)
        mt_runtime_fail(rt, mt_device_elapsed_ms(rt->device, from, to, &ms));
    return ms;
}

void mt_runtime_phase(struct mt_runtime *rt, mt_phase phase)
{
    assert(phase < MT_PHASE_COUNT);
    rt->phase = phase;
    mt_alloc_mark(rt->alloc, MT_EVENT_PHASE, phase, rt->scope.span);
    mt_runtime_mark(rt, (int)phase);
}

struct mt_scope mt_scope_enter(struct mt_runtime *rt, const char *name, mt_category category, const char *op)
{
    assert(name != NULL && rt->scope_depth >= 0);
    struct mt_scope outer = mt_scope_category(rt, category, op);
    rt->scope.span = mt_alloc_intern_span(rt->alloc, outer.span, name);
    rt->scope_depth++;
    mt_alloc_mark(rt->alloc, MT_EVENT_SPAN_BEGIN, 0, rt->scope.span);
    return outer;
}

struct mt_scope mt_scope_enter_layer(struct mt_runtime *rt, int64_t layer, mt_category category, const char *op)
{
    char name[24];
    assert(layer >= 0);
    snprintf(name, sizeof name, "%lld", (long long)layer);
    struct mt_scope outer = mt_scope_enter(rt, name, category, op);
    rt->scope.layer = (int)layer;
    return outer;
}

void mt_scope_leave(struct mt_runtime *rt, struct mt_scope outer)
{
    assert(rt->scope_depth > 0); /* something was entered */
    rt->scope_depth--;
    mt_alloc_mark(rt->alloc, MT_EVENT_SPAN_END, 0, rt->scope.span);
    rt->scope = outer;
}

struct mt_scope mt_scope_category(struct mt_runtime *rt, mt_category category, const char *op)
{
    assert(category < MT_MOST_CATEGORIES && op != NULL);
    struct mt_scope outer = rt->scope;
    rt->scope.category = category;
    rt->scope.op = op;
    return outer;
}
