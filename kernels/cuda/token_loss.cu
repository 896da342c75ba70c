/* Cross entropy of each row of logits, and its gradient, which replaces them.
 *
 * A block takes a row. In a first pass its threads find the row's maximum and the sum of e^(logit - maximum), each for
 * its own columns, and combine them. The second pass writes, and finds the row in the cache. */
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/view.cuh"

constexpr int THREADS = 512;

/* The parameters of a launch. */
struct loss_call {
    char *logits;
    int dtype;
    uint32_t columns;
    struct mtk_rows rows;
    struct mtk_device_view loss, target;
    double scale;
};

__device__ __forceinline__ float exponential(float x)
{
    return expf(x);
}

__device__ __forceinline__ double exponential(double x)
{
    return exp(x);
}

__device__ __forceinline__ float logarithm(float x)
{
    return logf(x);
}

__device__ __forceinline__ double logarithm(double x)
{
    return log(x);
}

/* The sum of e^(x - maximum) over some x, and their maximum. */
template <typename T> struct running_sum {
    T maximum, sum;

    /* Adds another sum. If both maxima are -inf, the sums are added as they are, so that a nan stays. */
    __device__ __forceinline__ void take(T other_maximum, T other_sum)
    {
        T larger = other_maximum > maximum ? other_maximum : maximum;
        if (larger == -(T)INFINITY) {
            sum += other_sum;
            return;
        }
        sum = sum * exponential(maximum - larger) + other_sum * exponential(other_maximum - larger);
        maximum = larger;
    }
};

/* Combines all threads' sums into one, in every thread. */
template <typename T> __device__ __forceinline__ void combine_block(running_sum<T> *row)
{
    __shared__ T maximum[MTK_WARP], sum[MTK_WARP];
#pragma unroll
    for (int distance = MTK_WARP / 2; distance > 0; distance /= 2)
        row->take(__shfl_xor_sync(0xFFFFFFFFu, row->maximum, distance),
                  __shfl_xor_sync(0xFFFFFFFFu, row->sum, distance));
    if (threadIdx.x % MTK_WARP == 0) {
        maximum[threadIdx.x / MTK_WARP] = row->maximum;
        sum[threadIdx.x / MTK_WARP] = row->sum;
    }
    __syncthreads();
    *row = {maximum[0], sum[0]};
    for (int warp = 1; warp < THREADS / MTK_WARP; warp++)
        row->take(maximum[warp], sum[warp]);
}

/* Adds VEC neighbours. Their maximum comes first, so that the sum is rescaled once. */
template <typename T, int VEC> __device__ __forceinline__ void take_unit(running_sum<T> *row, const T *x)
{
    T larger = row->maximum;
#pragma unroll
    for (int e = 0; e < VEC; e++)
        larger = x[e] > larger ? x[e] : larger;
    T sum = 0;
#pragma unroll
    for (int e = 0; e < VEC; e++)
        sum += larger == -(T)INFINITY && x[e] == larger ? (T)0 : exponential(x[e] - larger);
    row->take(larger, sum);
}

/* loss = ln of the sum of e^logits - logits[target], logits = scale * (e^logits / their sum - (1 at target)). A block
 * takes the row of its number, a thread VEC of every THREADS * VEC columns. Every element of logits and loss is
 * written. */
template <typename T, int VEC>
__global__ void __launch_bounds__(THREADS) token_loss_kernel(const __grid_constant__ loss_call c)
{
    int64_t i, j, n;
    int size = mtk_size_of(c.dtype);
    char *row = c.logits + (int64_t)blockIdx.x * c.columns * size;
    running_sum<T> all = {-(T)INFINITY, 0};
    mtk_await_turn();
    c.rows.split(blockIdx.x, &i, &j, &n);
    int64_t target = *reinterpret_cast<const int64_t *>(c.target.at(i, j, n, 0));
    T chosen = mtk_load<T>(row + target * size, c.dtype); /* before the barrier, and so before it is overwritten */
    for (uint32_t column = threadIdx.x * VEC; column < c.columns; column += THREADS * VEC) {
        T x[VEC];
        mtk_decode<T, VEC>(mtk_read<T, VEC>(row + (int64_t)column * size, c.dtype), c.dtype, x);
        take_unit<T, VEC>(&all, x);
    }
    combine_block(&all);
    T log_sum = all.maximum + logarithm(all.sum);
    if (threadIdx.x == 0)
        mtk_store<T>(c.loss.at(i, j, n, 0), c.loss.dtype, log_sum - chosen);
    for (uint32_t column = threadIdx.x * VEC; column < c.columns; column += THREADS * VEC) {
        T x[VEC];
        char *at = row + (int64_t)column * size;
        mtk_decode<T, VEC>(mtk_read<T, VEC>(at, c.dtype), c.dtype, x);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            x[e] = (T)c.scale * (exponential(x[e] - log_sum) - (column + e == target ? (T)1 : (T)0));
        mtk_write<T, VEC>(at, c.dtype, mtk_encode<T, VEC>(x, c.dtype));
    }
}

mt_status mtk_cuda_cross_entropy(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                                 const struct mtk_view *target, struct mtk_queue *queue)
{
    constexpr int VEC = 8;
    loss_call call = {
        mtk_device_pointer(logits->address), logits->dtype, (uint32_t)logits->shape[3], {}, mtk_device_view_of(loss),
        mtk_device_view_of(target),          scale};
    mt_status status = mtk_rows_of("cross_entropy", logits, &call.rows);
    if (status != MT_OK || call.rows.count == 0)
        return status;
    if (logits->shape[3] > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "cross_entropy: a row of %lld logits is longer than a launch numbers",
                       (long long)logits->shape[3]);
    bool in_eights = call.columns % VEC == 0 && logits->address % (mt_addr)(VEC * mtk_size_of(logits->dtype)) == 0;
    bool is_wide = mtk_is_wide(logits->dtype) || mtk_is_wide(loss->dtype);
    return mtk_launch("cross_entropy",
                      is_wide ? (in_eights ? token_loss_kernel<double, 8> : token_loss_kernel<double, 1>)
                              : (in_eights ? token_loss_kernel<float, 8> : token_loss_kernel<float, 1>),
                      call.rows.count, THREADS, queue, call);
}
