/* The gate of SwiGLU over its two operands side by side, and its gradient, which replaces them.
 *
 *   in (n,2F)  | a: F | b: F |    out (n,F) = silu(a) * b
 *
 * A thread has VEC neighbours of out and the corresponding elements of a and b. It reads all of them before it
 * writes. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

constexpr int THREADS = 256;

/* The parameters of a launch. */
struct gate {
    char *in, *out;
    int dtype;
    uint32_t units;
    struct mtk_divisor row_units; /* of out */
};

/* A dtype that is checked at run time. Other kernels are compiled for bf16. */
constexpr int ANY = -1;

/* Returns 1 / (1 + e^-x). For bf16, which does not have the last bits of a float, the card's special function units
 * suffice. */
template <int DTYPE> __device__ __forceinline__ float sigmoid(float x)
{
    if (DTYPE == MT_BF16)
        return __fdividef(1, 1 + __expf(-x));
    return 1 / (1 + expf(-x));
}

template <int DTYPE> __device__ __forceinline__ double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Sets the positions of a thread's neighbours, in bytes. Returns false beyond the last. */
template <int VEC>
__device__ __forceinline__ bool locate(const gate &g, int dtype, int64_t *left, int64_t *right, int64_t *out)
{
    uint32_t unit = blockIdx.x * THREADS + threadIdx.x;
    if (unit >= g.units)
        return false;
    int64_t bytes = VEC * mtk_size_of(dtype), row = g.row_units.divide(unit);
    *out = unit * bytes;
    *left = *out + row * g.row_units.divisor * bytes;
    *right = *left + g.row_units.divisor * bytes;
    return true;
}

/* out = silu(a) * b. A thread has VEC neighbours, a block THREADS times as many. Every element of out is written. */
template <typename T, int VEC, int DTYPE>
__global__ void __launch_bounds__(THREADS) swiglu_kernel(const __grid_constant__ gate g)
{
    const int dtype = DTYPE == ANY ? g.dtype : DTYPE;
    int64_t left, right, out;
    mtk_await_turn();
    if (!locate<VEC>(g, dtype, &left, &right, &out))
        return;
    mtk_words<T, VEC> raw_a = mtk_read<T, VEC>(g.in + left, dtype), raw_b = mtk_read<T, VEC>(g.in + right, dtype);
    T a[VEC], b[VEC];
    mtk_decode<T, VEC>(raw_a, dtype, a);
    mtk_decode<T, VEC>(raw_b, dtype, b);
#pragma unroll
    for (int e = 0; e < VEC; e++)
        a[e] *= sigmoid<DTYPE>(a[e]) * b[e];
    mtk_write<T, VEC>(g.out + out, dtype, mtk_encode<T, VEC>(a, dtype));
}

/* With s = 1 / (1 + e^-a) and g = grad: da = g b s (1 + a (1 - s)), db = g a s, out = silu(a) * b. They replace a, b
 * and grad. A thread has VEC neighbours, a block THREADS times as many. Every element of in and grad is written. */
template <typename T, int VEC, int DTYPE>
__global__ void __launch_bounds__(THREADS) swiglu_grad_kernel(const __grid_constant__ gate g)
{
    const int dtype = DTYPE == ANY ? g.dtype : DTYPE;
    int64_t left, right, out;
    mtk_await_turn();
    if (!locate<VEC>(g, dtype, &left, &right, &out))
        return;
    mtk_words<T, VEC> raw_a = mtk_read<T, VEC>(g.in + left, dtype), raw_b = mtk_read<T, VEC>(g.in + right, dtype);
    mtk_words<T, VEC> raw_grad = mtk_read<T, VEC>(g.out + out, dtype);
    T a[VEC], b[VEC], grad[VEC];
    mtk_decode<T, VEC>(raw_a, dtype, a);
    mtk_decode<T, VEC>(raw_b, dtype, b);
    mtk_decode<T, VEC>(raw_grad, dtype, grad);
#pragma unroll
    for (int e = 0; e < VEC; e++) {
        T s = sigmoid<DTYPE>(a[e]), silu = a[e] * s, gated = silu * b[e];
        a[e] = grad[e] * b[e] * s * (1 + a[e] * (1 - s));
        b[e] = grad[e] * silu;
        grad[e] = gated;
    }
    mtk_write<T, VEC>(g.in + left, dtype, mtk_encode<T, VEC>(a, dtype));
    mtk_write<T, VEC>(g.in + right, dtype, mtk_encode<T, VEC>(b, dtype));
    mtk_write<T, VEC>(g.out + out, dtype, mtk_encode<T, VEC>(grad, dtype));
}

/* The kernels of an op, by the type of the computation, and for one neighbour or AT_ONCE; the last is for bf16. */
constexpr int AT_ONCE = 8;
typedef void gate_kernel(gate);
struct gate_kernels {
    gate_kernel *wide, *wide_vec, *narrow, *narrow_vec, *bf16_vec;
};

/* Queues a kernel over all rows, in as many launches as needed to number them. Fails with MT_FAILED if a row has more
 * elements than a launch can number. */
static mt_status queue_rows(const char *op, const gate_kernels &kernels, const struct mtk_view *out,
                            const struct mtk_view *in, struct mtk_queue *queue)
{
    int64_t F = out->shape[3], rows = out->shape[0] * out->shape[1] * out->shape[2], size = mtk_size_of(out->dtype);
    mt_addr bytes = (mt_addr)(AT_ONCE * size);
    bool in_vec = F % AT_ONCE == 0 && in->address % bytes == 0 && out->address % bytes == 0;
    int64_t row_units = in_vec ? F / AT_ONCE : F;
    if (rows == 0 || F == 0)
        return MT_OK;
    if (row_units > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "%s: a row of %lld elements is longer than a launch numbers", op, (long long)F);
    gate_kernel *kernel = mtk_is_wide(out->dtype)           ? (in_vec ? kernels.wide_vec : kernels.wide)
                          : in_vec && out->dtype == MT_BF16 ? kernels.bf16_vec
                                                            : (in_vec ? kernels.narrow_vec : kernels.narrow);
    int64_t most = MTK_MOST_UNITS / row_units;
    mt_status status = MT_OK;
    for (int64_t first = 0; first < rows && status == MT_OK; first += most) {
        int64_t count = rows - first < most ? rows - first : most;
        gate g = {mtk_device_pointer(in->address) + first * 2 * F * size,
                  mtk_device_pointer(out->address) + first * F * size, out->dtype, (uint32_t)(count * row_units),
                  mtk_divisor_of(row_units)};
        status = mtk_launch(op, kernel, (unsigned)mtk_ceiling(g.units, THREADS), THREADS, queue, g);
    }
    return status;
}

mt_status mtk_cuda_swiglu(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    const gate_kernels kernels = {swiglu_kernel<double, 1, ANY>, swiglu_kernel<double, AT_ONCE, ANY>,
                                  swiglu_kernel<float, 1, ANY>, swiglu_kernel<float, AT_ONCE, ANY>,
                                  swiglu_kernel<float, AT_ONCE, MT_BF16>};
    return queue_rows("swiglu", kernels, out, in, queue);
}

mt_status mtk_cuda_swiglu_grad(const struct mtk_view *in, const struct mtk_view *grad, struct mtk_queue *queue)
{
    const gate_kernels kernels = {swiglu_grad_kernel<double, 1, ANY>, swiglu_grad_kernel<double, AT_ONCE, ANY>,
                                  swiglu_grad_kernel<float, 1, ANY>, swiglu_grad_kernel<float, AT_ONCE, ANY>,
                                  swiglu_grad_kernel<float, AT_ONCE, MT_BF16>};
    return queue_rows("swiglu_grad", kernels, grad, in, queue);
}
