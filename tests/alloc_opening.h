/* Allocators with the settings of a text, and the devices under them. */
#pragma once

#include "alloc/alloc.h"
#include "device_opening.h"

/* Creates an allocator with `settings`, as --alloc takes them. Its events go to `sink`, which it copies. */
static inline struct mt_alloc *create_alloc(struct mt_device *device, const char *settings, const struct mt_sink *sink)
{
    struct mt_alloc_settings parsed;
    struct mt_alloc *alloc;
    assert_int_equal(mt_alloc_settings_parse(settings, &parsed), MT_OK);
    assert_int_equal(mt_alloc_create(device, sink, &parsed, &alloc), MT_OK);
    return alloc;
}
