/* For tests of the allocator by example (alloc_rig.h): requests that succeed, and checks of their events. */
#pragma once

#include "alloc_rig.h"

#define KIB(n) (UINT64_C(n) << 10)
#define MIB(n) (UINT64_C(n) << 20)

static inline struct mt_block *take_on(struct rig *rig, uint64_t bytes, mt_stream stream)
{
    struct mt_block *block;
    assert_int_equal(mt_alloc_take(rig->alloc, bytes, stream, 1, 0, &block), MT_OK);
    return block;
}

static inline struct mt_block *take(struct rig *rig, uint64_t bytes)
{
    return take_on(rig, bytes, 0);
}

static inline void give(struct rig *rig, struct mt_block *block)
{
    mt_alloc_give(rig->alloc, block);
}

static inline const struct mt_event *last_event(const struct rig *rig, mt_event_kind kind)
{
    for (size_t i = rig->recording.count; i-- > 0;)
        if (rig->recording.events[i].kind == kind)
            return &rig->recording.events[i];
    return NULL;
}

static inline uint64_t reserved(const struct rig *rig)
{
    return rig->fake.device.reserved_bytes;
}
