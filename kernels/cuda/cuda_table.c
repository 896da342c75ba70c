/* The CUDA table. */
#include "kernels/cuda/cuda_ops.h"

const struct mtk_table mtk_cuda = {
    .name = "cuda",
    .fill = mtk_cuda_fill,
    .unary = mtk_cuda_unary,
    .binary = mtk_cuda_binary,
    .ternary = mtk_cuda_ternary,
    .reduce = mtk_cuda_reduce,
    .lower_triangle = mtk_cuda_lower_triangle,
    .matmul = mtk_cuda_matmul,
    .gather_rows = mtk_cuda_gather_rows,
    .scatter_add_rows = mtk_cuda_scatter_add_rows,
    .pick = mtk_cuda_pick,
    .place_add = mtk_cuda_place_add,
    .rotate = mtk_cuda_rotate,
    .random = mtk_cuda_random,
};
