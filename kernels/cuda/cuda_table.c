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
    .rms_norm = mtk_cuda_rms_norm,
    .rms_norm_grad = mtk_cuda_rms_norm_grad,
    .swiglu = mtk_cuda_swiglu,
    .swiglu_grad = mtk_cuda_swiglu_grad,
    .cross_entropy = mtk_cuda_cross_entropy,
    .adamw = mtk_cuda_adamw,
    .softmax = mtk_cuda_softmax,
    .softmax_grad = mtk_cuda_softmax_grad,
    .attention = mtk_cuda_attention,
    .attention_grad = mtk_cuda_attention_grad,
    .random = mtk_cuda_random,
};
