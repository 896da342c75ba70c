/* The CPU's table. */
#include "kernels/cpu/cpu_ops.h"

const struct mtk_table mtk_cpu = {
    .name = "cpu",
    .fill = mtk_cpu_fill,
    .unary = mtk_cpu_unary,
    .binary = mtk_cpu_binary,
    .ternary = mtk_cpu_ternary,
    .reduce = mtk_cpu_reduce,
    .lower_triangle = mtk_cpu_lower_triangle,
    .matmul = mtk_cpu_matmul,
    .gather_rows = mtk_cpu_gather_rows,
    .scatter_add_rows = mtk_cpu_scatter_add_rows,
    .pick = mtk_cpu_pick,
    .place_add = mtk_cpu_place_add,
    .rotate = mtk_cpu_rotate,
    .softmax = mtk_cpu_softmax,
    .softmax_grad = mtk_cpu_softmax_grad,
    .attention = mtk_cpu_attention,
    .attention_grad = mtk_cpu_attention_grad,
    .rms_norm = mtk_cpu_rms_norm,
    .rms_norm_grad = mtk_cpu_rms_norm_grad,
    .swiglu = mtk_cpu_swiglu,
    .swiglu_grad = mtk_cpu_swiglu_grad,
    .cross_entropy = mtk_cpu_cross_entropy,
    .adamw = mtk_cpu_adamw,
    .random = mtk_cpu_random,
};
