/* Opening devices by their spellings. */
#pragma once

#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static inline struct mt_device *open_device(const char *spelling)
{
    struct mt_device *device;
    if (mt_device_open(spelling, &device) != MT_OK)
        fail_msg("%s: %s", spelling, mt_last_error());
    return device;
}

static inline void expect_device_refused(const char *spelling, mt_status status, const char *words)
{
    struct mt_device *device;
    assert_int_equal(mt_device_open(spelling, &device), status);
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", spelling, mt_last_error(), words);
}
