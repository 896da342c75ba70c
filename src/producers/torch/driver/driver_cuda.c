/* The stand-in for libcuda.so.1. Functions, attribute numbers and error codes follow the documentation of the CUDA
 * driver API.
 *
 * Contexts are addresses that are never dereferenced: one for each card, its primary context. */
#include "producers/torch/driver/driver.h"
#include "producers/torch/driver/driver_cuda_calls.h"
#include "producers/torch/memtrace_torch.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define CODES(X)                                                                                                       \
    X(CUDA_SUCCESS, 0, "no error")                                                                                     \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                                 \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                                 \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                        \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                                       \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                                             \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")
enum {
#define X(name, number, words) name = (number),
    CODES(X)
#undef X
};

/* The CUDA runtime returns the error of the private interface to its caller. This one is cudaErrorInsufficientDriver,
 * the same as without a driver. */
enum { NO_DRIVER = 35 };

enum { MOST_CARDS = 64, KIB = 1024 };
static char contexts[MOST_CARDS];
static _Thread_local char *current; /* the thread's context; NULL: none */

static int device_of(const char *context)
{
    const ptrdiff_t device = context - contexts;
    return context != NULL && device >= 0 && device < MOST_CARDS ? (int)device : -1;
}

static struct memtrace_torch_description described(void)
{
    struct memtrace_torch_description card;
    (void)memtrace_torch_describe(NULL, &card);
    return card;
}

/* ---- the driver ---- */

MT_EXPORTED int cuInit(unsigned flags)
{
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

MT_EXPORTED int cuDriverGetVersion(int *out)
{
    *out = MT_DRIVER_CUDA;
    return CUDA_SUCCESS;
}

MT_EXPORTED int cuGetErrorName(int code, const char **out)
{
    *out = NULL;
#define X(name, number, words)                                                                                         \
    if (code == (number))                                                                                              \
        *out = #name;
    CODES(X)
#undef X
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

MT_EXPORTED int cuGetErrorString(int code, const char **out)
{
    *out = NULL;
#define X(name, number, words)                                                                                         \
    if (code == (number))                                                                                              \
        *out = words;
    CODES(X)
#undef X
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- devices ---- */

MT_EXPORTED int cuDeviceGetCount(int *out)
{
    *out = mt_driver_cards();
    return CUDA_SUCCESS;
}

MT_EXPORTED int cuDeviceGet(int *out, int ordinal)
{
    *out = ordinal;
    return mt_driver_has(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

MT_EXPORTED int cuDeviceGetName(char *out, int capacity, int device)
{
    const struct memtrace_torch_description card = described();
    if (!mt_driver_has(device))
        return CUDA_ERROR_INVALID_DEVICE;
    (void)mt_driver_copy(out, capacity, card.name);
    return CUDA_SUCCESS;
}

MT_EXPORTED int cuDeviceTotalMem_v2(size_t *out, int device)
{
    *out = described().total_bytes;
    return mt_driver_has(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

MT_EXPORTED int cuDeviceComputeCapability(int *out_major, int *out_minor, int device)
{
    const int capability = described().capability;
    *out_major = capability / 10;
    *out_minor = capability % 10;
    return mt_driver_has(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

MT_EXPORTED int cuDeviceGetUuid_v2(void *out, int device)
{
    mt_driver_uuid(device, out);
    return mt_driver_has(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

MT_EXPORTED int cuDeviceGetUuid(void *out, int device)
{
    return cuDeviceGetUuid_v2(out, device);
}

/* Finds an attribute of a card. False if it is not known. */
static bool find_attribute(const struct memtrace_torch_description *card, int attribute, int *out)
{
    const int known[][2] = {
        {1 /* threads per block */, 1024},
        {2 /* block's x */, 1024},
        {3, 1024},
        {4, 64},
        {5 /* grid's x */, INT32_MAX},
        {6, 65535},
        {7, 65535},
        {8 /* shared memory per block */, 48 * KIB},
        {9 /* constant memory */, 64 * KIB},
        {10 /* warp size */, 32},
        {12 /* registers per block */, 65536},
        {16 /* multiprocessors */, card->multiprocessors},
        {18 /* integrated */, 0},
        {38 /* L2 cache */, (int)card->l2_bytes},
        {39 /* threads per multiprocessor */, card->threads_per_multiprocessor},
        {41 /* unified addresses */, 1},
        {75 /* capability */, card->capability / 10},
        {76, card->capability % 10},
        {81 /* shared memory per multiprocessor */, (int)card->multiprocessor_shared_bytes},
        {82 /* registers per multiprocessor */, 65536},
        {83 /* managed memory */, 1},
        {97 /* shared memory per block that asks for it */, (int)card->block_shared_bytes},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i][0] == attribute) {
            *out = known[i][1];
            return true;
        }
    return false;
}

MT_EXPORTED int cuDeviceGetAttribute(int *out, int attribute, int device)
{
    const struct memtrace_torch_description card = described();
    if (!mt_driver_has(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return find_attribute(&card, attribute, out) ? CUDA_SUCCESS
                                                 : mt_driver_refuse("cuDeviceGetAttribute", CUDA_ERROR_INVALID_VALUE);
}

/* ---- contexts and memory ---- */

MT_EXPORTED int cuDevicePrimaryCtxRetain(void **out, int device)
{
    *out = mt_driver_has(device) ? &contexts[device] : NULL;
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

MT_EXPORTED int cuDevicePrimaryCtxRelease_v2(int device)
{
    return mt_driver_has(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

MT_EXPORTED int cuDevicePrimaryCtxGetState(int device, unsigned *out_flags, int *out_is_active)
{
    *out_flags = 0;
    *out_is_active = mt_driver_has(device);
    return mt_driver_has(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

MT_EXPORTED int cuCtxGetCurrent(void **out)
{
    *out = current;
    return CUDA_SUCCESS;
}

MT_EXPORTED int cuCtxSetCurrent(void *context)
{
    if (context != NULL && !mt_driver_has(device_of(context)))
        return CUDA_ERROR_INVALID_CONTEXT;
    current = context;
    return CUDA_SUCCESS;
}

MT_EXPORTED int cuCtxGetDevice(int *out)
{
    *out = device_of(current);
    return current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

MT_EXPORTED int cuCtxSynchronize(void)
{
    return current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

MT_EXPORTED int cuMemGetInfo_v2(size_t *out_free, size_t *out_total)
{
    if (current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    const struct mt_driver_memory memory = mt_driver_memory(device_of(current));
    *out_free = memory.free;
    *out_total = memory.total;
    return CUDA_SUCCESS;
}

/* ---- functions by name ---- */

/* Returns a function of this library; NULL if there is none. */
static void *find_function(const char *name)
{
    Dl_info self;
    if (dladdr(contexts, &self) == 0)
        return NULL;
    void *library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (library != NULL)
        dlclose(library);
    return found;
}

MT_EXPORTED int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *out_status)
{
    char newer[96];
    (void)version;
    (void)flags;
    snprintf(newer, sizeof newer, "%s_v2", name);
    *out = find_function(newer);
    if (*out == NULL)
        *out = find_function(name);
    if (out_status != NULL)
        *out_status = *out == NULL; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

MT_EXPORTED int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}

MT_EXPORTED int cuGetExportTable(const void **out, const void *id)
{
    (void)id;
    *out = NULL;
    return NO_DRIVER;
}

/* ---- all other functions: they ignore the caller's arguments ---- */

#define X(name)                                                                                                        \
    MT_EXPORTED int cu##name(void)                                                                                     \
    {                                                                                                                  \
        return mt_driver_refuse("cu" #name, CUDA_ERROR_NOT_SUPPORTED);                                                 \
    }
MT_CUDA_CALLS(X)
#undef X
