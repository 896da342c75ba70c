/* Softmax over the rows of the last dimension, and its gradient. Elements that are not visible to a row's query are 0
 * in the output and are not read.
 *
 *   softmax        out = e^(scale in - lse), lse = ln of the sum of e^(scale in)
 *   softmax_grad   out = scale w (grad - sum of grad w)
 *
 * A block processes a row in two passes: first for the maximum and the sum, which is rescaled when the maximum grows,
 * or for the sum of products; then, with the row likely in the cache, for the output. A thread has a strided set of
 * units, of 4 neighbours if all views allow it. Milakov and Gimelshein, "Online normalizer calculation for softmax",
 * 2018. */
#include "kernels/cuda/view.cuh"

#include <math_constants.h>

namespace
{

constexpr int MOST_THREADS = 256, WARP = 32, FOURS = 4;

/* The parameters of a launch. */
struct softmax_call {
    mtk_rows rows;
    int length, causal; /* causal: a row sees the keys up to its own number */
    double scale;
    mtk_device_view out, in, weights; /* in: grad for softmax_grad. weights: only for softmax_grad */
};

/* The row of a block. */
struct place {
    int64_t i, j, n;
    int count; /* elements that are visible to the query */
};

__device__ __forceinline__ place place_of(const softmax_call &call)
{
    place p;
    call.rows.split(blockIdx.x, &p.i, &p.j, &p.n);
    p.count = call.causal && p.n + 1 < call.length ? (int)p.n + 1 : call.length;
    return p;
}

/* Load and store VEC neighbours from `column` on. */
template <typename T, int VEC>
__device__ __forceinline__ void load(const mtk_device_view &view, const char *row, int column, T *value)
{
    mtk_decode<T, VEC>(mtk_read<T, VEC>(row + column * view.stride[3], view.dtype), view.dtype, value);
}

template <typename T, int VEC>
__device__ __forceinline__ void store(const mtk_device_view &view, char *row, int column, const T *value)
{
    mtk_write<T, VEC>(row + column * view.stride[3], view.dtype, mtk_encode<T, VEC>(value, view.dtype));
}

__device__ __forceinline__ float infinity(float)
{
    return CUDART_INF_F;
}

__device__ __forceinline__ double infinity(double)
{
    return CUDART_INF;
}

/* The maximum of some numbers, and the sum of e^(number - maximum). A nan among them makes the sum nan. */
template <typename T> struct tally {
    T maximum, sum;

    __device__ __forceinline__ void add(T x)
    {
        if (x == -infinity(x))
            return;
        if (x > maximum) {
            sum *= exp(maximum - x);
            maximum = x;
        }
        sum += exp(x - maximum);
    }

    __device__ __forceinline__ void add(const tally &other)
    {
        T larger = maximum < other.maximum ? other.maximum : maximum;
        T mine = maximum == larger ? sum : sum * exp(maximum - larger);
        T others = other.maximum == larger ? other.sum : other.sum * exp(other.maximum - larger);
        maximum = larger;
        sum = mine + others;
    }
};

template <typename T> __device__ __forceinline__ tally<T> shuffled(const tally<T> &mine, int step)
{
    return {__shfl_xor_sync(~0u, mine.maximum, step), __shfl_xor_sync(~0u, mine.sum, step)};
}

/* A number that is summed over a block. */
template <typename T> struct total {
    T sum;

    __device__ __forceinline__ void add(const total &other)
    {
        sum += other.sum;
    }
};

template <typename T> __device__ __forceinline__ total<T> shuffled(const total<T> &mine, int step)
{
    return {__shfl_xor_sync(~0u, mine.sum, step)};
}

/* Returns the combination of all threads' parts, in a fixed order, to every thread. */
template <class PART> __device__ __forceinline__ PART of_block(PART part)
{
    __shared__ PART parts[MOST_THREADS / WARP];
#pragma unroll
    for (int step = 1; step < WARP; step *= 2)
        part.add(shuffled(part, step));
    if (threadIdx.x % WARP == 0)
        parts[threadIdx.x / WARP] = part;
    __syncthreads();
    part = parts[0];
    for (int warp = 1; warp < (int)blockDim.x / WARP; warp++)
        part.add(parts[warp]);
    return part;
}

/* out = e^(scale in - lse), lse = ln of the sum of e^(scale in). A block processes the row with its number, a thread a
 * strided set of units of VEC columns. Every element of out is written. */
template <typename T, int VEC>
__global__ void __launch_bounds__(MOST_THREADS) softmax_kernel(const __grid_constant__ softmax_call call)
{
    mtk_await_turn();
    place p = place_of(call);
    const char *in = call.in.at(p.i, p.j, p.n, 0);
    char *out = call.out.at(p.i, p.j, p.n, 0);
    T scale = (T)call.scale, value[VEC];
    tally<T> mine = {-infinity(scale), 0};
    for (int column = (int)threadIdx.x * VEC; column < p.count; column += (int)blockDim.x * VEC) {
        load<T, VEC>(call.in, in, column, value);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            if (column + e < p.count)
                mine.add(scale * value[e]);
    }
    tally<T> all = of_block(mine);
    for (int column = (int)threadIdx.x * VEC; column < call.length; column += (int)blockDim.x * VEC) {
        if (column < p.count)
            load<T, VEC>(call.in, in, column, value);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            value[e] = column + e < p.count ? exp(scale * value[e] - all.maximum) / all.sum : 0;
        store<T, VEC>(call.out, out, column, value);
    }
}

/* out = scale w (grad - sum of grad w). A block processes the row with its number, a thread a strided set of units of
 * VEC columns. Every element of out is written. */
template <typename T, int VEC>
__global__ void __launch_bounds__(MOST_THREADS) softmax_grad_kernel(const __grid_constant__ softmax_call call)
{
    mtk_await_turn();
    place p = place_of(call);
    const char *grad = call.in.at(p.i, p.j, p.n, 0), *weights = call.weights.at(p.i, p.j, p.n, 0);
    char *out = call.out.at(p.i, p.j, p.n, 0);
    T scale = (T)call.scale, slope[VEC], weight[VEC];
    total<T> mine = {0};
    for (int column = (int)threadIdx.x * VEC; column < p.count; column += (int)blockDim.x * VEC) {
        load<T, VEC>(call.in, grad, column, slope);
        load<T, VEC>(call.weights, weights, column, weight);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            if (column + e < p.count)
                mine.sum += slope[e] * weight[e];
    }
    T sum = of_block(mine).sum;
    for (int column = (int)threadIdx.x * VEC; column < call.length; column += (int)blockDim.x * VEC) {
        if (column < p.count) {
            load<T, VEC>(call.in, grad, column, slope);
            load<T, VEC>(call.weights, weights, column, weight);
        }
#pragma unroll
        for (int e = 0; e < VEC; e++)
            slope[e] = column + e < p.count ? scale * weight[e] * (slope[e] - sum) : 0;
        store<T, VEC>(call.out, out, column, slope);
    }
}

/* True if 4 neighbours of every row can be accessed at once. */
bool in_fours(const struct mtk_view *const *views, int count)
{
    for (int v = 0; v < count; v++) {
        bool fits = views[v]->stride[3] == 1 && views[v]->shape[3] % FOURS == 0 &&
                    views[v]->address % (FOURS * mtk_size_of(views[v]->dtype)) == 0;
        for (int d = 0; d < 3; d++)
            fits &= views[v]->stride[d] % FOURS == 0;
        if (!fits)
            return false;
    }
    return true;
}

/* Returns the number of threads: as many warps as a row needs. */
unsigned threads_for(int length, int vec)
{
    int64_t threads = mtk_ceiling(mtk_ceiling(length, vec), WARP) * WARP;
    return threads < MOST_THREADS ? (unsigned)threads : MOST_THREADS;
}

/* Queues one of four kernels, by the type of the computation and the number of neighbours per access. views[0] is the
 * output. */
template <class KERNEL>
mt_status queue_rows(const char *name, KERNEL wide_fours, KERNEL wide, KERNEL narrow_fours, KERNEL narrow,
                     const softmax_call &call, const struct mtk_view *const *views, int count, struct mtk_queue *queue)
{
    bool is_wide = false, fours = in_fours(views, count);
    for (int v = 0; v < count; v++)
        is_wide |= mtk_is_wide(views[v]->dtype);
    KERNEL kernel = is_wide ? (fours ? wide_fours : wide) : (fours ? narrow_fours : narrow);
    return mtk_launch(name, kernel, call.rows.count, threads_for(call.length, fours ? FOURS : 1), queue, call);
}

mt_status call_of(const char *op, double scale, mtk_keys keys, const struct mtk_view *out, softmax_call *call)
{
    if (out->shape[3] > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "%s: a row of %lld elements is longer than a block numbers", op,
                       (long long)out->shape[3]);
    call->length = (int)out->shape[3];
    call->causal = keys == MTK_KEYS_UP_TO_QUERY;
    call->scale = scale;
    call->out = mtk_device_view_of(out);
    return mtk_rows_of(op, out, &call->rows);
}

} // namespace

mt_status mtk_cuda_softmax(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *in,
                           struct mtk_queue *queue)
{
    const struct mtk_view *const views[] = {out, in};
    softmax_call call = {};
    mt_status status = call_of("softmax", scale, keys, out, &call);
    if (status != MT_OK || call.rows.count == 0 || call.length == 0)
        return status;
    call.in = mtk_device_view_of(in);
    return queue_rows("softmax", softmax_kernel<double, FOURS>, softmax_kernel<double, 1>, softmax_kernel<float, FOURS>,
                      softmax_kernel<float, 1>, call, views, 2, queue);
}

mt_status mtk_cuda_softmax_grad(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *grad,
                                const struct mtk_view *weights, struct mtk_queue *queue)
{
    const struct mtk_view *const views[] = {out, grad, weights};
    softmax_call call = {};
    mt_status status = call_of("softmax_grad", scale, keys, out, &call);
    if (status != MT_OK || call.rows.count == 0 || call.length == 0)
        return status;
    call.in = mtk_device_view_of(grad);
    call.weights = mtk_device_view_of(weights);
    return queue_rows("softmax_grad", softmax_grad_kernel<double, FOURS>, softmax_grad_kernel<double, 1>,
                      softmax_grad_kernel<float, FOURS>, softmax_grad_kernel<float, 1>, call, views, 3, queue);
}
