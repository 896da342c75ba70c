/* An allocator on a fake device (fake_device.h), with the recording of its events (recording.h). */
#pragma once

#include "alloc_opening.h"
#include "fake_device.h"
#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct rig {
    struct fake_device fake;
    struct recording recording;
    struct mt_alloc *alloc;
};

/* Creates it with the settings of `text`, as --alloc takes them. */
static inline void rig_open(struct rig *rig, const char *text, uint64_t capacity_bytes)
{
    rig->fake = fake_device_make(capacity_bytes, 1 << 20, 1);
    recording_open(&rig->recording);
    struct mt_sink sink = recording_sink(&rig->recording);
    rig->alloc = create_alloc(&rig->fake.device, text, &sink);
}

/* Destroys it; the allocator must be sound, and the device must have everything back. */
static inline void rig_close(struct rig *rig)
{
    assert_int_equal(mt_alloc_check(rig->alloc), MT_OK);
    mt_alloc_destroy(rig->alloc);
    assert_int_equal(rig->fake.device.reserved_bytes, 0);
    assert_int_equal(rig->fake.mapped_count, 0);
    assert_int_equal(rig->fake.open_ranges, 0);
    assert_int_equal(rig->fake.faults, 0);
    recording_close(&rig->recording);
}
