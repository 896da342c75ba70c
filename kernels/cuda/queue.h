/* What the CUDA table's ops are launched with. The device makes one for each of its streams and ends it; the ops note in it
 * which workspace cuBLAS was last told, and what they measured of products. */
#ifndef MTK_CUDA_QUEUE_H
#define MTK_CUDA_QUEUE_H

#include "base/types.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

struct mtk_choice;

/* Invariant: blas works on `stream`, and in the given workspace where that is not of 0 bytes. */
struct mtk_queue {
    cudaStream_t stream;
    cublasHandle_t blas;
    mt_addr workspace;          /* what cublasSetWorkspace was last given */
    uint64_t workspace_bytes;   /* 0: cuBLAS still has its own */
    struct mtk_choice *choices; /* of products, see product_choice.h; NULL: none was measured. Owned */
    bool overlaps;              /* a kernel may take its place before the one ahead has ended: from Hopper on */
};

#endif
