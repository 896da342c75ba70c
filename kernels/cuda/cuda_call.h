/* What a call into CUDA's runtime or cuBLAS comes to: a status, and CUDA's words for it behind the call's name. Of a card
 * that has no memory left it is MT_OUT_OF_MEMORY, since that is an ordinary outcome wherever it shows: contexts, kernels that
 * are loaded as they are first launched, graphs and libraries take memory, too. */
#ifndef MTK_CUDA_CALL_H
#define MTK_CUDA_CALL_H

#include "base/status.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

static inline mt_status mtk_cuda_status(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? MT_OUT_OF_MEMORY : MT_FAILED;
}

/* An error that was told stays in the runtime as its last one, and would be taken for the next launch's: whoever fails with it
 * takes it away. */
static inline mt_status mtk_cuda_fail(cudaError_t error, const char *call)
{
    (void)cudaGetLastError();
    return mt_fail(mtk_cuda_status(error), "%s: %s (%d)", call, cudaGetErrorString(error), (int)error);
}

static inline mt_status mtk_cuda_check(cudaError_t error, const char *call)
{
    return error == cudaSuccess ? MT_OK : mtk_cuda_fail(error, call);
}

/* cuBLAS leaves errors of the runtime behind as well. */
static inline mt_status mtk_blas_fail(cublasStatus_t outcome, const char *call)
{
    (void)cudaGetLastError();
    return mt_fail(outcome == CUBLAS_STATUS_ALLOC_FAILED ? MT_OUT_OF_MEMORY : MT_FAILED, "%s: %s (%d)", call,
                   cublasGetStatusName(outcome), (int)outcome);
}

#endif
