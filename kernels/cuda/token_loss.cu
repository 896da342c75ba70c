/* Cross entropy of each row of logits, and its gradient, which replaces them.
 *
 * A block processes one row. A thread holds some of its columns in registers, as e^(logit - maximum), with their sum
 * and maximum. The block combines these, and writes. The columns of a row that is too long for a block are processed in
 * several parts. They are read again, from the last part back, since the cache has the last ones. */
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/view.cuh"

constexpr int MOST_THREADS = 512;
constexpr int AT_ONCE = 8; /* neighbours per access, if possible */

/* A dtype that is checked at run time. Others are compiled for known dtypes. */
constexpr int ANY = -1;

/* The parameters of a launch. */
struct loss_call {
    char *logits;
    int dtype;
    uint32_t columns;
    struct mtk_rows rows;
    struct mtk_device_view loss, target;
    double scale;
};

/* Returns e^x, for a float with the card's unit for powers of 2. */
__device__ __forceinline__ float exponential(float x)
{
    constexpr float LOG2_E = 1.4426950408889634f;
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * LOG2_E));
    return y;
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

/* Returns the number to subtract from numbers with this maximum before exponentials are computed: exponentials of -inf
 * are 0. */
template <typename T> __device__ __forceinline__ T base_of(T maximum)
{
    return maximum == -(T)INFINITY ? (T)0 : maximum;
}

/* The maximum of some x, ignoring nan, and the sum of e^(x - base of maximum). */
template <typename T> struct running_sum {
    T maximum, sum;

    /* Returns the factor that converts the sum to a maximum that is not less. */
    __device__ __forceinline__ T factor(T larger) const
    {
        return maximum == larger ? (T)1 : exponential(maximum - larger);
    }

    __device__ __forceinline__ void take(const running_sum &other)
    {
        T larger = other.maximum > maximum ? other.maximum : maximum;
        sum = sum * factor(larger) + other.sum * other.factor(larger);
        maximum = larger;
    }
};

/* Combines a warp's sums into one, in each of its threads. */
template <typename T> __device__ __forceinline__ void combine_warp(running_sum<T> *all)
{
    T larger = all->maximum;
#pragma unroll
    for (int distance = MTK_WARP / 2; distance > 0; distance /= 2) {
        T other = __shfl_xor_sync(0xFFFFFFFFu, larger, distance);
        larger = other > larger ? other : larger;
    }
    *all = {larger, mtk_warp_sum(all->sum * all->factor(larger))};
}

/* Combines all threads' sums into one, in every thread. */
template <typename T> __device__ __forceinline__ void combine_block(running_sum<T> *all)
{
    __shared__ running_sum<T> of_warp[MTK_WARP];
    int lane = (int)threadIdx.x % MTK_WARP, warps = (int)blockDim.x / MTK_WARP;
    combine_warp(all);
    if (lane == 0)
        of_warp[threadIdx.x / MTK_WARP] = *all;
    __syncthreads();
    *all = lane < warps ? of_warp[lane] : running_sum<T>{-(T)INFINITY, 0};
    combine_warp(all);
}

/* The columns that a thread holds at once: as many as its registers can hold if a multiprocessor has two blocks of
 * MOST_THREADS. */
template <typename T, int VEC, int DTYPE>
constexpr int HELD = sizeof(T) == sizeof(double)   ? 8
                     : VEC > 1 && DTYPE == MT_BF16 ? 32
                                                   : 24;

/* A thread's columns of a part of a row: units of VEC neighbours, alternating with other threads'. */
template <typename T, int VEC, int DTYPE> struct held_columns {
    static constexpr int UNITS = HELD<T, VEC, DTYPE> / VEC;
    T x[UNITS][VEC];

    static __device__ __forceinline__ uint32_t column(uint32_t first, int u)
    {
        return first + (u * blockDim.x + threadIdx.x) * VEC;
    }

    /* Reads logits; after the last column they are -inf. */
    __device__ __forceinline__ void read(const char *row, uint32_t first, uint32_t columns, int dtype)
    {
        mtk_words<T, VEC> words[UNITS];
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            if (column(first, u) < columns)
                words[u] = mtk_read<T, VEC>(row + (int64_t)column(first, u) * mtk_size_of(dtype), dtype);
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            mtk_decode<T, VEC>(words[u], dtype, x[u]);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                x[u][e] = column(first, u) < columns ? x[u][e] : -(T)INFINITY;
        }
    }

    /* Replaces x by e^(x - base of their maximum). Returns maximum and sum. */
    __device__ __forceinline__ running_sum<T> raise()
    {
        running_sum<T> own = {-(T)INFINITY, 0};
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int e = 0; e < VEC; e++)
                own.maximum = max(own.maximum, x[u][e]);
        T base = base_of(own.maximum);
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int e = 0; e < VEC; e++) {
                x[u][e] = exponential(x[u][e] - base);
                own.sum += x[u][e];
            }
        return own;
    }

    /* Writes x * factor, minus `scale` at the target. */
    __device__ __forceinline__ void write(char *row, uint32_t first, uint32_t columns, int dtype, T factor, T scale,
                                          uint32_t target)
    {
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            if (column(first, u) >= columns)
                break;
#pragma unroll
            for (int e = 0; e < VEC; e++)
                x[u][e] *= factor;
            if (target - column(first, u) < VEC)
#pragma unroll
                for (int e = 0; e < VEC; e++)
                    x[u][e] -= target == column(first, u) + e ? scale : (T)0;
            mtk_write<T, VEC>(row + (int64_t)column(first, u) * mtk_size_of(dtype), dtype,
                              mtk_encode<T, VEC>(x[u], dtype));
        }
    }
};

/* loss = ln of the sum of e^logits - logits[target], logits = scale * (e^logits / their sum - (1 at target)). A block
 * processes the row with its number, a thread HELD columns of each part. Every element of logits and loss is
 * written. */
template <typename T, int VEC, int DTYPE>
__global__ void __launch_bounds__(MOST_THREADS, 2) token_loss_kernel(const __grid_constant__ loss_call c)
{
    int64_t i, j, n;
    const int dtype = DTYPE == ANY ? c.dtype : DTYPE;
    const uint32_t part = blockDim.x * HELD<T, VEC, DTYPE>, last = (c.columns - 1) / part * part;
    char *row = c.logits + (int64_t)blockIdx.x * c.columns * mtk_size_of(dtype);
    held_columns<T, VEC, DTYPE> held;
    mtk_await_turn();
    c.rows.split(blockIdx.x, &i, &j, &n);
    const int64_t *index = reinterpret_cast<const int64_t *>(c.target.at(i, j, n, 0));
    uint32_t target = (uint32_t)*index;
    /* Before the barrier, after which it is overwritten. */
    T chosen = mtk_load<T>(row + (int64_t)target * mtk_size_of(dtype), dtype);
    running_sum<T> own, all = {-(T)INFINITY, 0};
    for (uint32_t first = 0; first <= last; first += part) {
        held.read(row, first, c.columns, dtype);
        own = held.raise();
        all.take(own);
    }
    combine_block(&all);
    T scale = (T)c.scale, over_sum = scale / all.sum;
    if (threadIdx.x == 0)
        mtk_store<T>(c.loss.at(i, j, n, 0), c.loss.dtype, all.maximum + logarithm(all.sum) - chosen);
    for (uint32_t first = last;; first -= part) {
        held.write(row, first, c.columns, dtype, own.factor(all.maximum) * over_sum, scale, target);
        if (first == 0)
            break;
        held.read(row, first - part, c.columns, dtype);
        own = held.raise();
    }
}

/* Queues the kernel, with blocks of enough threads for a part of a row, and parts of about equal size. */
template <typename T, int VEC, int DTYPE> static mt_status launch(const loss_call &call, struct mtk_queue *queue)
{
    int64_t threads = mtk_ceiling(call.columns, HELD<T, VEC, DTYPE>), parts = mtk_ceiling(threads, MOST_THREADS);
    threads = mtk_ceiling(mtk_ceiling(threads, parts), MTK_WARP) * MTK_WARP;
    return mtk_launch("cross_entropy", token_loss_kernel<T, VEC, DTYPE>, call.rows.count, (unsigned)threads, queue,
                      call);
}

/* Queues the kernel for one neighbour, or for AT_ONCE. */
template <typename T, int DTYPE> static mt_status launch(const loss_call &call, bool in_vec, struct mtk_queue *queue)
{
    return in_vec ? launch<T, AT_ONCE, DTYPE>(call, queue) : launch<T, 1, DTYPE>(call, queue);
}

mt_status mtk_cuda_cross_entropy(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                                 const struct mtk_view *target, struct mtk_queue *queue)
{
    loss_call call = {
        mtk_device_pointer(logits->address), logits->dtype, (uint32_t)logits->shape[3], {}, mtk_device_view_of(loss),
        mtk_device_view_of(target),          scale};
    mt_status status = mtk_rows_of("cross_entropy", logits, &call.rows);
    if (status != MT_OK || call.rows.count == 0)
        return status;
    if (logits->shape[3] > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "cross_entropy: a row of %lld logits is longer than a launch numbers",
                       (long long)logits->shape[3]);
    mt_addr bytes = (mt_addr)(AT_ONCE * mtk_size_of(logits->dtype));
    bool in_vec = call.columns % AT_ONCE == 0 && logits->address % bytes == 0;
    bool is_wide = mtk_is_wide(logits->dtype) || mtk_is_wide(loss->dtype);
    if (!is_wide && logits->dtype == MT_BF16)
        return launch<float, MT_BF16>(call, in_vec, queue);
    if (!is_wide && logits->dtype == MT_F32)
        return launch<float, MT_F32>(call, in_vec, queue);
    return launch<double, ANY>(call, in_vec, queue);
}
