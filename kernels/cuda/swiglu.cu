/* The gate of SwiGLU over both of its operands side by side, and its gradient in place of them.
 *
 *   in (n,2F)  | a: F | b: F |    out (n,F) = silu(a) * b
 *
 * A thread takes VEC neighbours of out and those of a and b beside each other; it reads all before it writes. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

constexpr int THREADS = 256;

struct gate {
    char *in, *out;
    int dtype;
    uint32_t units;
    struct mtk_divisor row_units; /* of out */
};

__device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

__device__ __forceinline__ double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Where a thread's neighbours lie, in bytes; false beyond the last. */
template <int VEC> __device__ __forceinline__ bool locate(const gate &g, int64_t *left, int64_t *right, int64_t *out)
{
    uint32_t unit = blockIdx.x * THREADS + threadIdx.x;
    if (unit >= g.units)
        return false;
    int64_t bytes = VEC * mtk_size_of(g.dtype), row = g.row_units.divide(unit);
    *out = unit * bytes;
    *left = *out + row * g.row_units.divisor * bytes;
    *right = *left + g.row_units.divisor * bytes;
    return true;
}

template <typename T, int VEC> __global__ void __launch_bounds__(THREADS) swiglu_kernel(const __grid_constant__ gate g)
{
    int64_t left, right, out;
    mtk_await_turn();
    if (!locate<VEC>(g, &left, &right, &out))
        return;
    mtk_words<T, VEC> raw_a = mtk_read<T, VEC>(g.in + left, g.dtype), raw_b = mtk_read<T, VEC>(g.in + right, g.dtype);
    T a[VEC], b[VEC];
    mtk_decode<T, VEC>(raw_a, g.dtype, a);
    mtk_decode<T, VEC>(raw_b, g.dtype, b);
#pragma unroll
    for (int e = 0; e < VEC; e++)
        a[e] *= sigmoid(a[e]) * b[e];
    mtk_write<T, VEC>(g.out + out, g.dtype, mtk_encode<T, VEC>(a, g.dtype));
}

/* a, b and the gradient of out become da, db and out. */
template <typename T, int VEC>
__global__ void __launch_bounds__(THREADS) swiglu_grad_kernel(const __grid_constant__ gate g)
{
    int64_t left, right, out;
    mtk_await_turn();
    if (!locate<VEC>(g, &left, &right, &out))
        return;
    mtk_words<T, VEC> raw_a = mtk_read<T, VEC>(g.in + left, g.dtype), raw_b = mtk_read<T, VEC>(g.in + right, g.dtype);
    mtk_words<T, VEC> raw_grad = mtk_read<T, VEC>(g.out + out, g.dtype);
    T a[VEC], b[VEC], grad[VEC];
    mtk_decode<T, VEC>(raw_a, g.dtype, a);
    mtk_decode<T, VEC>(raw_b, g.dtype, b);
    mtk_decode<T, VEC>(raw_grad, g.dtype, grad);
#pragma unroll
    for (int e = 0; e < VEC; e++) {
        T s = sigmoid(a[e]), silu = a[e] * s, gated = silu * b[e];
        a[e] = grad[e] * b[e] * s * (1 + a[e] * (1 - s));
        b[e] = grad[e] * silu;
        grad[e] = gated;
    }
    mtk_write<T, VEC>(g.in + left, g.dtype, mtk_encode<T, VEC>(a, g.dtype));
    mtk_write<T, VEC>(g.in + right, g.dtype, mtk_encode<T, VEC>(b, g.dtype));
    mtk_write<T, VEC>(g.out + out, g.dtype, mtk_encode<T, VEC>(grad, g.dtype));
}

/* The gate and how many neighbours a thread takes of it; MT_FAILED if there are more than a launch numbers. */
static mt_status gate_of(const char *op, const struct mtk_view *out, const struct mtk_view *in, gate *to, int *vec)
{
    constexpr int VEC = 8;
    int64_t F = out->shape[3], count = out->shape[0] * out->shape[1] * out->shape[2] * F;
    mt_addr bytes = (mt_addr)(VEC * mtk_size_of(out->dtype));
    *vec = F % VEC == 0 && in->address % bytes == 0 && out->address % bytes == 0 ? VEC : 1;
    if (count / *vec > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "%s: %lld elements are more than a launch numbers", op, (long long)count);
    *to = {mtk_device_pointer(in->address), mtk_device_pointer(out->address), out->dtype, (uint32_t)(count / *vec),
           mtk_divisor_of(F / *vec)};
    return MT_OK;
}

mt_status mtk_cuda_swiglu(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    gate g = {};
    int vec = 1;
    mt_status status = gate_of("swiglu", out, in, &g, &vec);
    if (status != MT_OK || g.units == 0)
        return status;
    unsigned blocks = (unsigned)mtk_ceiling(g.units, THREADS);
    bool is_wide = mtk_is_wide(out->dtype);
    return mtk_launch("swiglu",
                      is_wide ? (vec > 1 ? swiglu_kernel<double, 8> : swiglu_kernel<double, 1>)
                              : (vec > 1 ? swiglu_kernel<float, 8> : swiglu_kernel<float, 1>),
                      blocks, THREADS, queue, g);
}

mt_status mtk_cuda_swiglu_grad(const struct mtk_view *in, const struct mtk_view *grad, struct mtk_queue *queue)
{
    gate g = {};
    int vec = 1;
    mt_status status = gate_of("swiglu_grad", grad, in, &g, &vec);
    if (status != MT_OK || g.units == 0)
        return status;
    unsigned blocks = (unsigned)mtk_ceiling(g.units, THREADS);
    bool is_wide = mtk_is_wide(grad->dtype);
    return mtk_launch("swiglu_grad",
                      is_wide ? (vec > 1 ? swiglu_grad_kernel<double, 8> : swiglu_grad_kernel<double, 1>)
                              : (vec > 1 ? swiglu_grad_kernel<float, 8> : swiglu_grad_kernel<float, 1>),
                      blocks, THREADS, queue, g);
}
