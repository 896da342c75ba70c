/* Views on the card with all dimensions, for kernels that depend on an element's position. Such kernels compute in
 * double, like the same ops on the CPU: they are few, and limited by memory bandwidth. */
#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

/* A view. Strides in bytes. */
struct mtk_device_view {
    char *base;
    int dtype;
    int64_t stride[MT_MAX_DIMS];

    __device__ __forceinline__ char *at(int64_t i, int64_t j, int64_t k, int64_t l) const
    {
        return base + i * stride[0] + j * stride[1] + k * stride[2] + l * stride[3];
    }
};

/* Rows (i, j, n) of the first three dimensions, numbered row-major. */
struct mtk_rows {
    uint32_t count;
    struct mtk_divisor size1, size2;

    __device__ __forceinline__ void split(uint32_t row, int64_t *i, int64_t *j, int64_t *n) const
    {
        uint32_t above = size2.divide(row);
        *n = row - above * size2.divisor;
        *i = size1.divide(above);
        *j = above - (uint32_t)*i * size1.divisor;
    }
};

static inline struct mtk_device_view mtk_device_view_of(const struct mtk_view *view)
{
    struct mtk_device_view v = {mtk_device_pointer(view->address), view->dtype, {}};
    for (int d = 0; d < MT_MAX_DIMS; d++)
        v.stride[d] = view->stride[d] * mtk_size_of(view->dtype);
    return v;
}

/* Sets the rows of a view. Fails with MT_FAILED if there are more than a launch can number. */
static inline mt_status mtk_rows_of(const char *op, const struct mtk_view *view, struct mtk_rows *out)
{
    int64_t count = view->shape[0] * view->shape[1] * view->shape[2];
    if (count > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "%s: %lld rows are more than a launch numbers", op, (long long)count);
    *out = {(uint32_t)count, mtk_divisor_of(view->shape[1]), mtk_divisor_of(view->shape[2])};
    return MT_OK;
}
