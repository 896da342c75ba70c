/* Statuses of calls of CUDA's runtime and cuBLAS, with the call's name and CUDA's message. An exhausted card gives
 * MT_OUT_OF_MEMORY in any call, since that is an ordinary outcome: contexts, kernels (which are loaded at their first
 * launch), graphs and libraries also need memory. */
#pragma once

#include "base/status.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

static inline mt_status mtk_cuda_status(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? MT_OUT_OF_MEMORY : MT_FAILED;
}

/* Fails with the error, and clears it in the runtime, which would otherwise return it as the error of the next
 * launch. */
static inline mt_status mtk_cuda_fail(cudaError_t error, const char *call)
{
    (void)cudaGetLastError();
    return mt_fail(mtk_cuda_status(error), "%s: %s (%d)", call, cudaGetErrorString(error), (int)error);
}

static inline mt_status mtk_cuda_check(cudaError_t error, const char *call)
{
    return error == cudaSuccess ? MT_OK : mtk_cuda_fail(error, call);
}

/* Fails with cuBLAS's error, and clears the error that it may leave in the runtime. */
static inline mt_status mtk_blas_fail(cublasStatus_t outcome, const char *call)
{
    (void)cudaGetLastError();
    return mt_fail(outcome == CUBLAS_STATUS_ALLOC_FAILED ? MT_OUT_OF_MEMORY : MT_FAILED, "%s: %s (%d)", call,
                   cublasGetStatusName(outcome), (int)outcome);
}
