/* Functions shared by programs that are recorded on a card. They end the program at the first failure, and call the
 * driver's functions without being linked with it. */
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { CARD_PROGRAM_FAILED = 98 };

static inline void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s failed\n", program_invocation_short_name, what);
    exit(CARD_PROGRAM_FAILED);
}

/* A function of the driver. */
static inline void *find(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *function = NULL;
    if (library != NULL)
        function = dlsym(library, name);
    check(function != NULL, name);
    return function;
}

/* Physical memory of the first card. */
static inline CUmemGenericAllocationHandle make_memory(size_t bytes)
{
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
    const CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle = 0;
    *(void **)&create = find("cuMemCreate");
    check(create(&handle, bytes, &kind, 0) == CUDA_SUCCESS, "cuMemCreate");
    return handle;
}

static inline void release_memory(CUmemGenericAllocationHandle handle)
{
    CUresult (*release)(CUmemGenericAllocationHandle);
    *(void **)&release = find("cuMemRelease");
    check(release(handle) == CUDA_SUCCESS, "cuMemRelease");
}
