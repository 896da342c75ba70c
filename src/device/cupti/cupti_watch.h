/* The watch of kernels through CUPTI: the one entry of libmemtrace_cupti.so, which device.c looks up by name. */
#ifndef MT_DEVICE_CUPTI_CUPTI_WATCH_H
#define MT_DEVICE_CUPTI_CUPTI_WATCH_H

#include "device/device.h"

#define MT_CUPTI_WATCH_NAME "mt_cupti_watch"
typedef mt_status (*mt_cupti_watch_function)(struct mt_device *device, struct mt_kernel_watch **out);

/* Begins to watch the kernels of a CUDA device, for mt_device_watch_kernels. One watch a process at a time. MT_FAILED
 * if the library is of another version than this was built with, if another tool uses CUPTI (the message names it), or
 * with what CUPTI says. */
mt_status mt_cupti_watch(struct mt_device *device, struct mt_kernel_watch **out);

#endif
