/* The driver's own functions, as fake_cuda.c has them where FAKE_DRIVER is set: of the name by which the driver is looked for.
 *
 * Asked about a pool, another thread of the program makes a context first, as one may, and the driver is not to be had
 * for as long as that takes. */
#include <cuda.h>

#include <stdint.h>
#include <string.h>

enum { POOL = 5 };

/* The program's. */
extern void fake_cuda_make_context(void);

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    (void)device;
    *out = (CUmemoryPool)(uintptr_t)POOL;
    return CUDA_SUCCESS;
}

/* A pool holds three times a page. */
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *out)
{
    const uint64_t bytes = 3 << 20;
    fake_cuda_make_context();
    if (pool != (CUmemoryPool)(uintptr_t)POOL || attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(out, &bytes, sizeof bytes);
    return CUDA_SUCCESS;
}
