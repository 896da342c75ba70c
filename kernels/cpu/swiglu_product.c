/* The products around SwiGLU with the gate, computed one after the other. */
#include "kernels/cpu/cpu_ops.h"

/* Returns a matrix with `rows` rows; transposed if its columns in memory are the rows. */
static struct mtk_view matrix_of(const struct mtk_view *view, bool is_turned)
{
    int64_t columns = view->shape[3], rows = view->shape[0] * view->shape[1] * view->shape[2];
    struct mtk_view matrix = {.address = view->address,
                              .dtype = view->dtype,
                              .shape = {1, 1, rows, columns},
                              .stride = {rows * columns, rows * columns, columns, 1}};
    if (!is_turned)
        return matrix;
    matrix.shape[2] = columns;
    matrix.shape[3] = rows;
    matrix.stride[2] = 1;
    matrix.stride[3] = columns;
    return matrix;
}

/* Computes out = left · right, or left · rightᵀ. */
static mt_status multiply(const struct mtk_view *out, const struct mtk_view *left, const struct mtk_view *right,
                          bool is_turned)
{
    const struct mtk_product product = {.alpha = 1};
    struct mtk_view to = matrix_of(out, false), a = matrix_of(left, false), b = matrix_of(right, is_turned);
    return mtk_cpu_matmul(&product, &to, &a, &b, 0, 0, NULL);
}

mt_status mtk_cpu_swiglu_product(const struct mtk_view *in, const struct mtk_view *out, const struct mtk_view *x,
                                 const struct mtk_view *weight, struct mtk_queue *queue)
{
    mt_status status = multiply(in, x, weight, true);
    return status == MT_OK && out->address != 0 ? mtk_cpu_swiglu(out, in, queue) : status;
}

mt_status mtk_cpu_swiglu_product_grad(const struct mtk_view *in, const struct mtk_view *out,
                                      const struct mtk_view *grad, const struct mtk_view *weight,
                                      struct mtk_queue *queue)
{
    mt_status status = multiply(out, grad, weight, false);
    return status == MT_OK ? mtk_cpu_swiglu_grad(in, out, queue) : status;
}
