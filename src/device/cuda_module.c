/* "cuda" and "cuda:1": the module that speaks to NVIDIA cards is loaded only when a GPU is asked for, so that the program
 * starts where there is no driver and no CUDA library. It stays loaded: CUDA does not end before the process does. */
#include "device/backend.h"

#include "base/text.h"
#include "device/cuda/cuda_device.h"
#include "device/module.h"

#include <dlfcn.h>

enum { MOST_CARDS = 64 };

#define MODULE "libmemtrace_cuda.so"
#define DRIVER "libcuda.so.1"

/* The module brings libraries of hundreds of megabytes: where there is no driver they are not worth loading. A driver that
 * is there stays, since CUDA's runtime opens it next. */
static mt_status find_driver(void)
{
    if (dlopen(DRIVER, RTLD_LAZY | RTLD_LOCAL) != NULL)
        return MT_OK;
    return mt_fail(MT_NO_DEVICE, "no GPU: there is no NVIDIA driver (%s)", dlerror());
}

static mt_status find_entry(mt_cuda_open_function *out)
{
    mt_status status = find_driver();
    if (status != MT_OK)
        return status;
    status = mt_module_find(MODULE, MT_CUDA_OPEN_NAME, (void **)out);
    if (status == MT_OK)
        return MT_OK;
    return mt_fail(status,
                   "no GPU: %s (the module for NVIDIA cards is built where the CUDA toolkit is, and needs its cuBLAS)",
                   mt_last_error());
}

mt_status mt_cuda_module_open(const char *argument, struct mt_device **out)
{
    int64_t ordinal = 0;
    mt_cuda_open_function open_card = NULL;
    mt_status status =
        argument != NULL ? mt_parse_integer("the number of a GPU", argument, 0, MOST_CARDS - 1, &ordinal) : MT_OK;
    if (status == MT_OK)
        status = find_entry(&open_card);
    return status == MT_OK ? open_card((int)ordinal, out) : status;
}
