/* For tests that need a card: they end with SKIPPED, which CTest reports as such, where there is none. */
#ifndef MT_TESTS_GPU_H
#define MT_TESTS_GPU_H

#include "device/device.h"

#include <stdio.h>

enum { SKIPPED = 77 };

/* Whether there is a card; why not is printed. What else keeps it from opening is the failure of the test that opens it. */
static inline bool gpu_is_there(void)
{
    struct mt_device *device;
    mt_status status = mt_device_open("cuda", &device);
    if (status == MT_NO_DEVICE) {
        printf("skipped: %s\n", mt_last_error());
        return false;
    }
    if (status == MT_OK)
        mt_device_close(device);
    return true;
}

#endif
