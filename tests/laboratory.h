/* A runtime for single ops, in a scope, on a device of its own. Nobody watches its events. */
#pragma once

#include "base/interner.h"
#include "model_device.h"
#include "producers/model/ops.h"

struct laboratory {
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_interner *interner;
    struct mt_sink sink;
    struct mt_runtime rt;
};

static inline void laboratory_open(struct laboratory *lab, const char *device)
{
    lab->interner = mt_interner_create();
    lab->sink = mt_sink_discarding(lab->interner);
    lab->device = open_model_device(device);
    lab->alloc = create_alloc(lab->device, "", &lab->sink);
    mt_runtime_open(&lab->rt, lab->device, lab->alloc);
    mt_scope_enter(&lab->rt, "test", MT_CATEGORY_BLOCK, "test");
}

/* Closes it; every block must have been released. */
static inline void laboratory_close(struct laboratory *lab)
{
    struct mt_alloc_stats stats;
    mt_op_workspaces_release(&lab->rt);
    mt_alloc_stats(lab->alloc, &stats);
    assert_int_equal(stats.all.blocks, 0);
    mt_alloc_destroy(lab->alloc);
    mt_device_close(lab->device);
    mt_interner_destroy(lab->interner);
}
