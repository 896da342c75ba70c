/* For tests that need a card. Without one they end with SKIPPED, which CTest reports as skipped. */
#pragma once

#include "device/device.h"
#include "producers/model/ops.h"

#include <stdio.h>
#include <string.h>

enum { SKIPPED = 77 };

/* True if there is a card; otherwise prints the reason. A card that can't be opened for another reason counts as
 * present: the test that opens it fails. */
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

/* Sets the device to the first argument of the program, if there is one. False if it is a card that is not present. */
static inline bool take_device(int count, char **arguments, const char **device)
{
    if (count > 1)
        *device = arguments[1];
    return strcmp(*device, "cuda") != 0 || gpu_is_there();
}

/* True if the device supports fp8, or can't be opened, which the tests then report; otherwise prints the reason. */
static inline bool takes_fp8(const char *spelling)
{
    struct mt_device *device;
    if (mt_device_open(spelling, &device) != MT_OK)
        return true;
    mt_status status = mt_op_fp8_check(device);
    mt_device_close(device);
    if (status != MT_OK)
        printf("without fp8: %s\n", mt_last_error());
    return status == MT_OK;
}
