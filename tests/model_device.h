/* Opening devices that compute, by their spellings. */
#pragma once

#include "alloc_opening.h"
#include "producers/model/training.h"

static inline struct mt_device *open_model_device(const char *spelling)
{
    struct mt_device *device;
    if (mt_model_device_open(spelling, &device) != MT_OK)
        fail_msg("%s: %s", spelling, mt_last_error());
    return device;
}
