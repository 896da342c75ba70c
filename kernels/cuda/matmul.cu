/* out[o,g,m,n] = alpha * sum over k of a[o,g,m,k] * b[o,g,k,n] + beta * out[o,g,m,n], by cuBLAS, one call for each o.
 * Every element of `out` is written.
 *
 * cuBLAS reads matrices by columns. A matrix by rows is its transpose by columns, so
 *
 *   out by rows      out' = b' a', with everything transposed, and no copy
 *   out by columns   out = a b
 *
 * and an operand is read transposed if its layout differs from out's. fp32 is computed in fp32, or in tf32 if
 * requested. bf16 and fp8 are summed in fp32 and rounded once, or not at all if out is fp32. Only cublasLt multiplies
 * fp8, in the layout of Hopper's matrix units: both operands dense along k. */
#include "kernels/cuda/launch.cuh"

#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/product_choice.h"
#include "kernels/fp8.h"

/* The order in which cuBLAS can read the last two dimensions of a view: by rows or by columns, `leading` elements
 * apart; or neither. */
struct layout {
    enum { BY_ROWS, BY_COLUMNS, NEITHER } order;
    int64_t leading;
};

/* Returns the distance of rows in elements if rows, of `columns` elements, are dense, otherwise 0. A dimension of one
 * element may have any stride. */
static int64_t rows_apart(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride)
{
    bool columns_adjoin = column_stride == 1 || columns == 1;
    int64_t apart = rows == 1 ? columns : row_stride;
    return columns_adjoin && apart >= columns ? apart : 0;
}

static struct layout layout_of(const struct mtk_view *m)
{
    int64_t by_rows = rows_apart(m->shape[2], m->shape[3], m->stride[2], m->stride[3]);
    if (by_rows > 0)
        return {layout::BY_ROWS, by_rows};
    int64_t by_columns = rows_apart(m->shape[3], m->shape[2], m->stride[3], m->stride[2]);
    return by_columns > 0 ? layout{layout::BY_COLUMNS, by_columns} : layout{layout::NEITHER, 0};
}

static mt_status fail_layout(const char *which, const struct mtk_view *m)
{
    return mt_fail(MT_FAILED,
                   "matmul: %s is %lld x %lld with strides of %lld and %lld elements, which cuBLAS can't read", which,
                   (long long)m->shape[2], (long long)m->shape[3], (long long)m->stride[2], (long long)m->stride[3]);
}

/* Sets cuBLAS's workspace, unless it already has it. With 0 bytes, returns to cuBLAS's own workspace by setting the
 * stream, since the memory of the last workspace may be used for other purposes by now. */
static mt_status use_workspace(struct mtk_queue *queue, mt_addr workspace, uint64_t bytes)
{
    mt_addr place = bytes > 0 ? workspace : 0;
    if (place == queue->workspace && bytes == queue->workspace_bytes)
        return MT_OK;
    cublasStatus_t status = bytes > 0 ? cublasSetWorkspace(queue->blas, mtk_device_pointer(place), bytes)
                                      : cublasSetStream(queue->blas, queue->stream);
    if (status != CUBLAS_STATUS_SUCCESS)
        return mtk_blas_fail(status, "cublasSetWorkspace");
    queue->workspace = place;
    queue->workspace_bytes = bytes;
    return MT_OK;
}

/* The arguments of cuBLAS: c = a b, in columns. */
struct product {
    const struct mtk_view *a, *b, *c;
    cublasOperation_t turn_a, turn_b;
    int64_t m, n, k, a_leading, b_leading, c_leading;
    mt_addr a_scale, b_scale;
};

static cublasOperation_t turn(struct layout operand, struct layout out)
{
    return operand.order == out.order ? CUBLAS_OP_N : CUBLAS_OP_T;
}

static product product_of(const mtk_product *how, const struct mtk_view *out, const struct mtk_view *a,
                          const struct mtk_view *b)
{
    struct layout to = layout_of(out), left = layout_of(a), right = layout_of(b);
    int64_t rows = out->shape[2], columns = out->shape[3], k = a->shape[3];
    if (to.order == layout::BY_ROWS)
        return {b,           a, out,           turn(right, to), turn(left, to), columns,
                rows,        k, right.leading, left.leading,    to.leading,     how->b_scale,
                how->a_scale};
    return {a,           b, out,          turn(left, to), turn(right, to), rows,
            columns,     k, left.leading, right.leading,  to.leading,      how->a_scale,
            how->b_scale};
}

static cudaDataType_t data_type(mt_dtype dtype)
{
    switch (dtype) {
    case MT_F64:
        return CUDA_R_64F;
    case MT_BF16:
        return CUDA_R_16BF;
    case MT_F8_E4M3FN:
        return CUDA_R_8F_E4M3;
    case MT_F8_E5M2:
        return CUDA_R_8F_E5M2;
    default:
        return CUDA_R_32F;
    }
}

static cublasComputeType_t compute_type(mtk_math math, mt_dtype dtype)
{
    if (dtype == MT_F64)
        return CUBLAS_COMPUTE_64F;
    return dtype == MT_F32 && math == MTK_MATH_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* Returns the address of the matrices of product number o. */
static char *outer_at(const struct mtk_view *view, int64_t o)
{
    return mtk_device_pointer(view->address) + o * view->stride[0] * mtk_size_of(view->dtype);
}

static cublasStatus_t multiply(const struct mtk_product *how, const product *p, int64_t o, struct mtk_queue *queue)
{
    const float alpha_float = (float)how->alpha, beta_float = (float)how->beta;
    bool is_double = p->c->dtype == MT_F64;
    const void *alpha = is_double ? (const void *)&how->alpha : &alpha_float;
    const void *beta = is_double ? (const void *)&how->beta : &beta_float;
    cudaDataType_t type = data_type(p->a->dtype), out_type = data_type(p->c->dtype);
    cublasComputeType_t compute = compute_type(how->math, p->a->dtype);
    const void *a = outer_at(p->a, o), *b = outer_at(p->b, o);
    void *c = outer_at(p->c, o);
    if (p->c->shape[1] == 1)
        return cublasGemmEx_64(queue->blas, p->turn_a, p->turn_b, p->m, p->n, p->k, alpha, a, type, p->a_leading, b,
                               type, p->b_leading, beta, c, out_type, p->c_leading, compute, CUBLAS_GEMM_DEFAULT);
    return cublasGemmStridedBatchedEx_64(queue->blas, p->turn_a, p->turn_b, p->m, p->n, p->k, alpha, a, type,
                                         p->a_leading, p->a->stride[1], b, type, p->b_leading, p->b->stride[1], beta, c,
                                         out_type, p->c_leading, p->c->stride[1], p->c->shape[1], compute,
                                         CUBLAS_GEMM_DEFAULT);
}

/* True if the fastest kernel should be measured: for a single product on the matrix units. For plain fp32, cuBLAS's
 * heuristic choice is the fastest. */
static bool is_single(const mtk_product *how, const struct mtk_view *out, const struct mtk_view *a)
{
    bool on_matrix_units = a->dtype == MT_BF16 || (a->dtype == MT_F32 && how->math == MTK_MATH_TF32);
    return how->choosing == MTK_CHOOSING_MEASURES && on_matrix_units && out->shape[0] * out->shape[1] == 1;
}

static mtk_blas_product blas_product_of(const mtk_product *how, const product *p)
{
    return {.m = p->m,
            .n = p->n,
            .k = p->k,
            .a_leading = p->a_leading,
            .b_leading = p->b_leading,
            .c_leading = p->c_leading,
            .turn_a = p->turn_a,
            .turn_b = p->turn_b,
            .a_type = data_type(p->a->dtype),
            .b_type = data_type(p->b->dtype),
            .out_type = data_type(p->c->dtype),
            .compute = compute_type(how->math, p->a->dtype),
            .alpha = (float)how->alpha,
            .beta = (float)how->beta,
            .a = mtk_device_pointer(p->a->address),
            .b = mtk_device_pointer(p->b->address),
            .c = mtk_device_pointer(p->c->address),
            .a_scale = mtk_device_pointer(p->a_scale),
            .b_scale = mtk_device_pointer(p->b_scale)};
}

/* Adds the sizes and dtypes of a product to its error. */
static mt_status fail_product(mt_status status, const struct mtk_view *out, const struct mtk_view *a,
                              const struct mtk_view *b)
{
    return mt_fail_context(status, "product of %lld matrices, %lld x %lld by %lld x %lld, of %s and %s to %s",
                           (long long)out->shape[1], (long long)out->shape[2], (long long)a->shape[3],
                           (long long)a->shape[3], (long long)out->shape[3], mt_dtype_name(a->dtype),
                           mt_dtype_name(b->dtype), mt_dtype_name(out->dtype));
}

/* Queues a product of fp8, with the fastest kernel or cuBLAS's heuristic choice. */
static mt_status multiply_fp8(const mtk_product *how, const product *p, mt_addr workspace, uint64_t workspace_bytes,
                              struct mtk_queue *queue)
{
    const mtk_blas_product product = blas_product_of(how, p);
    if (p->turn_a != CUBLAS_OP_T || p->turn_b != CUBLAS_OP_N || p->c->shape[0] * p->c->shape[1] > 1)
        return mt_fail(MT_FAILED, "operands in fp8 are not one product of dense rows by dense columns");
    if (how->choosing == MTK_CHOOSING_MEASURES && mtk_choice_multiply(queue, &product, workspace, workspace_bytes))
        return MT_OK;
    return mtk_choice_guess(queue, &product, workspace, workspace_bytes);
}

mt_status mtk_cuda_matmul(const struct mtk_product *how, const struct mtk_view *out, const struct mtk_view *a,
                          const struct mtk_view *b, mt_addr workspace, uint64_t workspace_bytes,
                          struct mtk_queue *queue)
{
    if (layout_of(out).order == layout::NEITHER)
        return fail_layout("the output", out);
    if (layout_of(a).order == layout::NEITHER)
        return fail_layout("the left operand", a);
    if (layout_of(b).order == layout::NEITHER)
        return fail_layout("the right operand", b);
    mt_status status = use_workspace(queue, workspace, workspace_bytes);
    if (status != MT_OK)
        return status;
    product p = product_of(how, out, a, b);
    if (mt_is_fp8(a->dtype)) {
        status = multiply_fp8(how, &p, workspace, workspace_bytes, queue);
        return status == MT_OK ? MT_OK : fail_product(status, out, a, b);
    }
    const mtk_blas_product single = blas_product_of(how, &p);
    if (is_single(how, out, a) && mtk_choice_multiply(queue, &single, workspace, workspace_bytes))
        return MT_OK;
    cublasStatus_t outcome = CUBLAS_STATUS_SUCCESS;
    for (int64_t o = 0; o < out->shape[0] && outcome == CUBLAS_STATUS_SUCCESS; o++)
        outcome = multiply(how, &p, o, queue);
    return outcome == CUBLAS_STATUS_SUCCESS ? MT_OK : fail_product(mtk_blas_fail(outcome, "cuBLAS"), out, a, b);
}
