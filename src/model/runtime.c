#include "model/runtime.h"

#include <stdio.h>

void mt_runtime_open(struct mt_runtime *rt, struct mt_device *device, struct mt_alloc *alloc)
{
    *rt = (struct mt_runtime){.device = device, .alloc = alloc, .grad_enabled = true, .scope = {.layer = -1}};
    mt_runtime_phase(rt, MT_PHASE_INIT);
}

void mt_runtime_close(struct mt_runtime *rt)
{
    for (int i = 0; i < 2; i++)
        mt_tensor_release(rt, rt->workspaces[i]);
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

void mt_runtime_phase(struct mt_runtime *rt, mt_phase phase)
{
    rt->phase = phase;
    mt_alloc_mark(rt->alloc, MT_EVENT_PHASE, phase, rt->scope.span);
    if (rt->status == MT_OK)
        mt_runtime_fail(rt, mt_device_mark(rt->device, (int)phase));
}

struct mt_scope mt_scope_enter(struct mt_runtime *rt, const char *name, mt_category category, const char *op)
{
    struct mt_scope outer = rt->scope;
    rt->scope.span = mt_alloc_intern_span(rt->alloc, outer.span, name);
    rt->scope.category = category;
    rt->scope.op = op;
    mt_alloc_mark(rt->alloc, MT_EVENT_SPAN_BEGIN, 0, rt->scope.span);
    return outer;
}

struct mt_scope mt_scope_enter_layer(struct mt_runtime *rt, int64_t layer, mt_category category, const char *op)
{
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)layer);
    struct mt_scope outer = mt_scope_enter(rt, name, category, op);
    rt->scope.layer = (int)layer;
    return outer;
}

void mt_scope_leave(struct mt_runtime *rt, struct mt_scope outer)
{
    mt_alloc_mark(rt->alloc, MT_EVENT_SPAN_END, 0, rt->scope.span);
    rt->scope = outer;
}

struct mt_scope mt_scope_category(struct mt_runtime *rt, mt_category category, const char *op)
{
    struct mt_scope outer = rt->scope;
    rt->scope.category = category;
    rt->scope.op = op;
    return outer;
}

struct mt_tensor *mt_runtime_workspace(struct mt_runtime *rt)
{
    struct mt_tensor **workspace = &rt->workspaces[rt->phase == MT_PHASE_BACKWARD];
    if (*workspace == NULL) {
        struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_WORKSPACE, "matmul.workspace");
        const int64_t shape[] = {MT_MATMUL_WORKSPACE_BYTES};
        *workspace = mt_tensor_empty(rt, MT_ROLE_WORKSPACE, NULL, MT_U8, 1, shape);
        rt->scope = outer;
    }
    return *workspace;
}
