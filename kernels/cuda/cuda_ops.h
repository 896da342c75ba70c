/* The ops of the CUDA table; formulas and shapes are in kernels/kernels.h, and kernels/cpu has the same ops in plain
 * C.
 *
 * Addresses are in the device's memory, and all work is queued. A launcher chooses the grid, allocates nothing and
 * waits for nothing. It returns the error of the launch, with the op's name and numbers. As always with CUDA, an error
 * inside a kernel is returned by a later call.
 *
 * Numbers: ops compute in fp32 if no operand is fp64 or int64, otherwise in fp64, and round once, to the dtype of the
 * output. A copy between equal dtypes preserves every bit except in a bf16 nan. No result depends on the order of
 * blocks, so equal inputs give equal bits. */
#pragma once

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define X(op, parameters, views) mt_status mtk_cuda_##op parameters;
MTK_OPS(X)
#undef X

/* The table of CUDA kernels and cuBLAS, for addresses and queues of a CUDA device. */
extern const struct mtk_table mtk_cuda;

#ifdef __cplusplus
}
#endif
