/* The queue on which ops of the CUDA table are launched. The device creates one for each of its streams and ends it.
 * The ops store cuBLAS's workspace and the measured kernels of products in it. */
#pragma once

#include "base/types.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

struct mtk_choice;

/* Invariant: blas works on `stream`, and with the given workspace unless that has 0 bytes. */
struct mtk_queue {
    cudaStream_t stream;
    cublasHandle_t blas;
    mt_addr workspace;          /* of the last cublasSetWorkspace */
    uint64_t workspace_bytes;   /* 0: cuBLAS still uses its own */
    struct mtk_choice *choices; /* of products, see product_choice.h; owned; NULL: none measured */
    int capability;             /* of the card, times ten: 90 is 9.0 */
};
