/* The driver's library for fake_cuda.c, used if FAKE_DRIVER is set. It has the file name by which the driver is found.
 *
 * When it is asked about a pool, another thread of the program first creates a context, and the driver blocks
 * meanwhile. */
#include <cuda.h>

#include <stdint.h>
#include <string.h>

enum { POOL = 5 };

/* A function of the program. */
extern void fake_cuda_make_context(void);

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    (void)device;
    *out = (CUmemoryPool)(uintptr_t)POOL;
    return CUDA_SUCCESS;
}

/* A pool holds three pages at any time. */
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *out)
{
    const uint64_t bytes = 3 << 20;
    fake_cuda_make_context();
    if (pool != (CUmemoryPool)(uintptr_t)POOL || attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(out, &bytes, sizeof bytes);
    return CUDA_SUCCESS;
}
