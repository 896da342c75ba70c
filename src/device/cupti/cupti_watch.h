/* The watch of kernels through CUPTI: the only entry point of libmemtrace_cupti.so, which cuda_device.c looks up by
 * name. */
#pragma once

#include "device/backend.h"
#include "device/device.h"

#define MT_CUPTI_WATCH_NAME "mt_cupti_watch"
typedef mt_status (*mt_cupti_watch_function)(struct mt_device *device, struct mt_kernel_watch **out);

/* Starts to watch the kernels of a CUDA device, for mt_device_watch_kernels. A process has one watch at a time. Fails
 * with MT_FAILED if CUPTI has another version than at build time, if another tool uses it (the message names the tool),
 * or if a call of CUPTI fails. */
mt_status mt_cupti_watch(struct mt_device *device, struct mt_kernel_watch **out);
