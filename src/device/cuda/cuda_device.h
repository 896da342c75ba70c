/* The only entry point of the CUDA module (libmemtrace_cuda.so), which src/device/device_open.c looks up by name.
 *
 * The module has its own copy of the parts of src/base that it needs, and uses nothing of its opener except struct
 * mt_module_host. So one module serves memtrace and other programs that use the library. */
#pragma once

#include "device/device.h"

#define MT_CUDA_OPEN_NAME "mt_cuda_open"
typedef mt_status (*mt_cuda_open_function)(int ordinal, struct mt_device **out);

/* Opens card number `ordinal`, from 0. The caller owns it. Fails with MT_NO_DEVICE, and a message on what to do, if
 * there is no driver, no card, or no card with that number; then nothing is left open. The module stays loaded while a
 * device is open. */
__attribute__((visibility("default"))) mt_status mt_cuda_open(int ordinal, struct mt_device **out);
