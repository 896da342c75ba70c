/* The queue that ops of the CUDA table are launched on. The device makes one for each of its streams and ends it. The
 * ops note in it the workspace that cuBLAS has, and the kernels of products that they measured. */
#pragma once

#include "base/types.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

struct mtk_choice;

/* Invariant: blas works on `stream`, and in the given workspace unless that has 0 bytes. */
struct mtk_queue {
    cudaStream_t stream;
    cublasHandle_t blas;
    mt_addr workspace;          /* of the last cublasSetWorkspace */
    uint64_t workspace_bytes;   /* 0: cuBLAS still has its own */
    struct mtk_choice *choices; /* of products, see product_choice.h; owned; NULL: none was measured */
    int capability;             /* of the card, times ten: 90 is 9.0 */
};
