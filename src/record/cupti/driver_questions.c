#include "record/cupti/driver_questions.h"

#include <dlfcn.h>
#include <stdio.h>

static void *find_driver(void)
{
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

void mt_driver_describe(int device, char name[MT_DRIVER_NAME_BYTES], uint64_t *out_bytes)
{
    void *driver = find_driver();
    CUresult (*get_name)(char *, int, CUdevice) = NULL;
    CUresult (*get_bytes)(size_t *, CUdevice) = NULL;
    size_t bytes = 0;
    snprintf(name, MT_DRIVER_NAME_BYTES, "CUDA device %d", device);
    if (driver != NULL) {
        *(void **)&get_name = dlsym(driver, "cuDeviceGetName");
        *(void **)&get_bytes = dlsym(driver, "cuDeviceTotalMem_v2");
    }
    if (get_name != NULL)
        get_name(name, MT_DRIVER_NAME_BYTES, device);
    if (get_bytes != NULL)
        get_bytes(&bytes, device);
    *out_bytes = bytes;
}

void mt_driver_find_pools(struct mt_pool_functions *out)
{
    void *driver = find_driver();
    if (driver == NULL)
        return;
    *(void **)&out->of_device = dlsym(driver, "cuDeviceGetMemPool");
    *(void **)&out->attribute = dlsym(driver, "cuMemPoolGetAttribute");
}
