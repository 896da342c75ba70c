/* The one entry of the CUDA module (libmemtrace_cuda.so), which src/device/cuda_module.c looks up by name.
 *
 * It brings what it needs of src/base along, and takes nothing from who opens it but the place of the last error's text
 * (device/module.h): so it is the same for the program and for the programs of others that use the library. */
#ifndef MT_DEVICE_CUDA_DEVICE_H
#define MT_DEVICE_CUDA_DEVICE_H

#include "device/device.h"

#define MT_CUDA_OPEN_NAME "mt_cuda_open"
typedef mt_status (*mt_cuda_open_function)(int ordinal, struct mt_device **out);

/* Opens card number `ordinal` (from 0), owned by the caller. MT_NO_DEVICE, with what to do about it, where there is no
 * driver, no card, or none of that number; then nothing stays behind. Of the module itself, nothing may be unloaded
 * while a device is open. */
__attribute__((visibility("default"))) mt_status mt_cuda_open(int ordinal, struct mt_device **out);

#endif
