/* Causal attention: out_t = sum over u <= t of e^(scale q_t·k_u - lse_t) v_u, lse_t = ln of the sum of e^(scale
 * q_t·k_u).
 *
 * A block has some queries of a head and streams keys and values in tiles, up to the last query. For each query it
 * keeps the running maximum and sum of exponentials, and rescales the output so far when the maximum grows. Dao et al.,
 * "FlashAttention", 2022; Dao, "FlashAttention-2", 2023.
 *
 * bf16 is multiplied on the matrix units and summed in fp32; a weight is rounded to bf16 before it is multiplied. fp32
 * is multiplied without rounding or, if requested, on the matrix units, rounded to tf32. Every row of `out` and, if
 * requested, of `lse` is written; nothing is added to. */
#include "kernels/attention_plan.h"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/plain_tiles.cuh"

#include <math_constants.h>

namespace
{

/* A block has QUERIES queries, a warp 16 of them, and streams KEYS keys at a time. */
template <class E> constexpr int WARPS = sizeof(E) == 2 ? 8 : 4;
template <class E> constexpr int THREADS = 32 * WARPS<E>;
template <class E> constexpr int QUERIES = 16 * WARPS<E>;
template <class E> constexpr int KEYS = QUERIES<E> / 2;
constexpr int WARP_QUERIES = 16;

/* Shared memory has two pairs of tiles of keys and values. bf16 queries are loaded into the second pair, and from there
 * into registers; fp32 queries have a separate place after it. */
template <class E> constexpr int QUERIES_BEGIN = sizeof(E) == 2 ? 2 * KEYS<E> : 4 * KEYS<E>; /* in rows */
template <class E, int WIDTH> constexpr unsigned shared_bytes()
{
    constexpr int queries_end = QUERIES_BEGIN<E> + QUERIES<E>;
    constexpr int rows = queries_end > 4 * KEYS<E> ? queries_end : 4 * KEYS<E>;
    return rows * mtk_pitch<E>(WIDTH) * sizeof(E);
}

/* The results of a warp's queries so far. A thread has its part of rows g and g + 8. */
template <class E, int WIDTH> struct walk {
    mtk_left<E, WIDTH> q;
    float out[WIDTH / 8][4];
    float maximum[2], sum[2];
};

/* Sets the score to -inf if the key, first + column, comes after the query. */
template <int PIECES> __device__ __forceinline__ void mask(float (&score)[PIECES][4], int query, int first)
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < PIECES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (first + n * 8 + lane % 4 * 2 + e % 2 > query + lane / 4 + e / 2 * 8)
                score[n][e] = -CUDART_INF_F;
}

/* Returns the maximum of `maximum` and of row g (half 0) or g + 8 (half 1), which four threads share. */
template <int PIECES>
__device__ __forceinline__ float row_maximum(const float (&score)[PIECES][4], int half, float maximum)
{
#pragma unroll
    for (int n = 0; n < PIECES; n++)
        maximum = fmaxf(maximum, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
    return fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
}

/* Converts scores to weights with the new maximum, and rescales the results so far to it. */
template <class E, int WIDTH, int PIECES>
__device__ __forceinline__ void weigh(walk<E, WIDTH> &w, float (&score)[PIECES][4], float scale_log2)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float maximum = row_maximum(score, half, w.maximum[half]), shift = maximum * scale_log2;
        float shrink = mtk_exp2(w.maximum[half] * scale_log2 - shift), sum = 0;
        w.maximum[half] = maximum;
#pragma unroll
        for (int n = 0; n < PIECES; n++)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                score[n][e] = mtk_exp2(score[n][e] * scale_log2 - shift);
                sum += score[n][e];
            }
        w.sum[half] = w.sum[half] * shrink + sum;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) {
            w.out[n][2 * half] *= shrink;
            w.out[n][2 * half + 1] *= shrink;
        }
    }
}

/* Adds the keys from `first` on to the results of a warp's queries, from `query` on. */
template <class E, int WIDTH>
__device__ __forceinline__ void meet(walk<E, WIDTH> &w, const E *keys, const E *values, int query, int first,
                                     float scale_log2)
{
    float score[KEYS<E> / 8][4];
    mtk_made<E, KEYS<E> / 8> weights;
    mtk_clear(score);
    mtk_times_rows<WIDTH>(score, w.q, keys);
    if (first + KEYS<E> - 1 > query)
        mask(score, query, first);
    weigh(w, score, scale_log2);
    mtk_left_of(weights, score);
    mtk_times_tile<WIDTH>(w.out, weights, values);
}

/* Divides the results by the sums and writes them. */
template <class E, int WIDTH>
__device__ __forceinline__ void arrive(walk<E, WIDTH> &w, const mtk_flash<E> &call, mtk_part part, int query)
{
    int lane = (int)threadIdx.x % 32;
    mtk_head<float> lse = mtk_head_of(call.lse, part);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        w.sum[half] += __shfl_xor_sync(~0u, w.sum[half], 1);
        w.sum[half] += __shfl_xor_sync(~0u, w.sum[half], 2);
        int row = query + lane / 4 + half * 8;
        if (call.lse.base != nullptr && lane % 4 == 0 && row < call.length)
            lse.base[row * lse.row] = w.maximum[half] * call.scale + logf(w.sum[half]);
    }
    mtk_rows_write<WIDTH>(mtk_head_of(call.out, part), query, call.length, call.features, w.out, 1 / w.sum[0],
                          1 / w.sum[1]);
}

/* The number of blocks that share a multiprocessor, which limits the registers of a thread. */
template <class E, int WIDTH> constexpr int BLOCKS = WIDTH <= 80 ? (sizeof(E) == 2 ? 2 : 3) : 1;

/* out and lse, on the matrix units. A block has QUERIES queries of one head, a warp WARP_QUERIES of them. Every row of
 * out and, if requested, of lse is written. */
template <class E, int WIDTH>
__global__ void __launch_bounds__(THREADS<E>, BLOCKS<E, WIDTH>)
    attention_matrix(const __grid_constant__ mtk_flash<E> call)
{
    extern __shared__ __align__(16) char shared[];
    constexpr int PITCH = mtk_pitch<E>(WIDTH), TILE = KEYS<E> * PITCH;
    E *tiles = reinterpret_cast<E *>(shared), *queries = tiles + QUERIES_BEGIN<E> * PITCH;
    mtk_await_turn();
    mtk_part part = mtk_part_of(call);
    const mtk_head<E> k = mtk_head_of(call.k, part), v = mtk_head_of(call.v, part);
    int last_part = (int)(gridDim.x / (unsigned)call.total) - 1;
    int block_query = (last_part - part.tile) * QUERIES<E>, query = block_query + (int)threadIdx.x / 32 * WARP_QUERIES;
    int end = min(block_query + QUERIES<E>, call.length);
    walk<E, WIDTH> w;
    mtk_tile_copy<WIDTH, QUERIES<E>, THREADS<E>>(queries, mtk_head_of(call.q, part), block_query, call.length,
                                                 call.features);
    mtk_tile_copy<WIDTH, KEYS<E>, THREADS<E>>(tiles, k, 0, call.length, call.features);
    mtk_tile_copy<WIDTH, KEYS<E>, THREADS<E>>(tiles + TILE, v, 0, call.length, call.features);
    mtk_copies_wait();
    __syncthreads();
    w.q.read(queries, query - block_query);
    mtk_clear(w.out);
    w.maximum[0] = w.maximum[1] = -CUDART_INF_F;
    w.sum[0] = w.sum[1] = 0;
    E *here = tiles, *next = tiles + 2 * TILE;
    for (int first = 0; first < end; first += KEYS<E>) {
        mtk_copies_wait();
        __syncthreads(); /* this tile has arrived, and no thread still reads the previous one */
        if (first + KEYS<E> < end) {
            mtk_tile_copy<WIDTH, KEYS<E>, THREADS<E>>(next, k, first + KEYS<E>, call.length, call.features);
            mtk_tile_copy<WIDTH, KEYS<E>, THREADS<E>>(next + TILE, v, first + KEYS<E>, call.length, call.features);
        }
        if (first <= query + WARP_QUERIES - 1)
            meet<E, WIDTH>(w, here, here + TILE, query, first, call.scale * MTK_LOG2_E);
        E *was = here;
        here = next;
        next = was;
    }
    arrive(w, call, part, query);
}

template <int WIDTH> constexpr unsigned plain_shared_bytes()
{
    return ((MTK_OWN + 2 * MTK_STREAM) * mtk_plain_pitch(WIDTH) + MTK_OWN * MTK_WEIGHT_PITCH) * sizeof(float);
}

/* Return the maximum and the sum of the values of the 16 threads of a row. */
__device__ __forceinline__ float of_row_maximum(float value)
{
#pragma unroll
    for (int step = 1; step < MTK_SIDE; step *= 2)
        value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

__device__ __forceinline__ float of_row_sum(float value)
{
#pragma unroll
    for (int step = 1; step < MTK_SIDE; step *= 2)
        value += __shfl_xor_sync(~0u, value, step);
    return value;
}

/* The results of a thread's rows so far. */
template <int WIDTH> struct plain_walk {
    float out[MTK_OWN_EACH][WIDTH / MTK_SIDE], maximum[MTK_OWN_EACH], sum[MTK_OWN_EACH];
};

/* Converts scores to weights like `weigh`. Row i of a thread is query + 16 i, column j is key + 16 j. */
template <int WIDTH>
__device__ __forceinline__ void plain_weigh(plain_walk<WIDTH> &w, float (&score)[MTK_OWN_EACH][MTK_STREAM_EACH],
                                            int query, int key, float scale)
{
#pragma unroll
    for (int i = 0; i < MTK_OWN_EACH; i++) {
        float maximum = w.maximum[i], sum = 0;
#pragma unroll
        for (int j = 0; j < MTK_STREAM_EACH; j++) {
            score[i][j] = key + j * MTK_SIDE <= query + i * MTK_SIDE ? score[i][j] * scale : -CUDART_INF_F;
            maximum = fmaxf(maximum, score[i][j]);
        }
        maximum = of_row_maximum(maximum);
        float shrink = __expf(w.maximum[i] - maximum);
#pragma unroll
        for (int j = 0; j < MTK_STREAM_EACH; j++) {
            score[i][j] = expf(score[i][j] - maximum);
            sum += score[i][j];
        }
        w.maximum[i] = maximum;
        w.sum[i] = w.sum[i] * shrink + of_row_sum(sum);
#pragma unroll
        for (int j = 0; j < WIDTH / MTK_SIDE; j++)
            w.out[i][j] *= shrink;
    }
}

template <int WIDTH>
__device__ __forceinline__ void plain_arrive(const plain_walk<WIDTH> &w, const mtk_flash<float> &call, mtk_part part,
                                             int first)
{
    float factor[MTK_OWN_EACH];
    mtk_head<float> lse = mtk_head_of(call.lse, part);
#pragma unroll
    for (int i = 0; i < MTK_OWN_EACH; i++) {
        int row = first + mtk_y() + i * MTK_SIDE;
        factor[i] = 1 / w.sum[i];
        if (call.lse.base != nullptr && mtk_x() == 0 && row < call.length)
            lse.base[row * lse.row] = w.maximum[i] + logf(w.sum[i]);
    }
    mtk_plain_write<WIDTH>(mtk_head_of(call.out, part), first, call.length, call.features, w.out, factor);
}

/* out and lse, in fp32. A block has MTK_OWN queries of one head, a thread rows y + 16 i and columns x + 16 j of the
 * tiles. Every row of out and, if requested, of lse is written. */
template <int WIDTH>
__global__ void __launch_bounds__(MTK_PLAIN_THREADS) attention_fp32(const __grid_constant__ mtk_flash<float> call)
{
    extern __shared__ __align__(16) float plain_tiles[];
    float *queries = plain_tiles, *keys = queries + MTK_OWN * mtk_plain_pitch(WIDTH);
    float *values = keys + MTK_STREAM * mtk_plain_pitch(WIDTH), *weights = values + MTK_STREAM * mtk_plain_pitch(WIDTH);
    mtk_await_turn();
    mtk_part part = mtk_part_of(call);
    const mtk_head<float> k = mtk_head_of(call.k, part), v = mtk_head_of(call.v, part);
    int first_query = ((int)(gridDim.x / (unsigned)call.total) - 1 - part.tile) * MTK_OWN;
    int end = min(first_query + MTK_OWN, call.length);
    plain_walk<WIDTH> w;
    mtk_plain_clear<WIDTH>(w.out);
#pragma unroll
    for (int i = 0; i < MTK_OWN_EACH; i++) {
        w.maximum[i] = -CUDART_INF_F;
        w.sum[i] = 0;
    }
    mtk_plain_copy<WIDTH, MTK_OWN>(queries, mtk_head_of(call.q, part), first_query, call.length, call.features);
    for (int first = 0; first < end; first += MTK_STREAM) {
        float score[MTK_OWN_EACH][MTK_STREAM_EACH];
        __syncthreads();
        mtk_plain_copy<WIDTH, MTK_STREAM>(keys, k, first, call.length, call.features);
        mtk_plain_copy<WIDTH, MTK_STREAM>(values, v, first, call.length, call.features);
        __syncthreads();
        mtk_plain_dots<WIDTH>(score, queries, keys);
        plain_weigh(w, score, first_query + mtk_y(), first + mtk_x(), call.scale);
        mtk_plain_share(weights, score);
        __syncthreads();
        mtk_plain_add<WIDTH>(w.out, weights, values);
    }
    plain_arrive(w, call, part, first_query);
}

/* Queue a call, with and without matrix units. */
template <class E, int WIDTH> mt_status launch(const mtk_flash<E> &call, struct mtk_queue *queue)
{
    return mtk_launch_shared("attention", attention_matrix<E, WIDTH>, (unsigned)mtk_flash_blocks(call, QUERIES<E>),
                             THREADS<E>, shared_bytes<E, WIDTH>(), queue, call);
}

template <int WIDTH> mt_status launch_plain(const mtk_flash<float> &call, struct mtk_queue *queue)
{
    return mtk_launch_shared("attention", attention_fp32<WIDTH>, (unsigned)mtk_flash_blocks(call, MTK_OWN),
                             MTK_PLAIN_THREADS, plain_shared_bytes<WIDTH>(), queue, call);
}

template <class E>
mtk_flash<E> call_of(double scale, const struct mtk_view *out, const struct mtk_view *lse, const struct mtk_view *q,
                     const struct mtk_view *k, const struct mtk_view *v)
{
    mtk_flash<E> call = mtk_flash_of<E>(scale, q);
    call.q = mtk_heads_of<E>(q);
    call.k = mtk_heads_of<E>(k);
    call.v = mtk_heads_of<E>(v);
    call.out = mtk_heads_of<E>(out);
    if (lse != nullptr)
        call.lse = mtk_heads_of<float>(lse);
    return call;
}

template <class E> mt_status forward(const mtk_flash<E> &call, struct mtk_queue *queue)
{
    return mtk_with_width(call.features, [&](auto width) { return launch<E, decltype(width)::value>(call, queue); });
}

mt_status forward_plain(const mtk_flash<float> &call, struct mtk_queue *queue)
{
    return mtk_with_width(call.features, [&](auto width) { return launch_plain<decltype(width)::value>(call, queue); });
}

} // namespace

mt_status mtk_cuda_attention(double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse,
                             const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v,
                             struct mtk_queue *queue)
{
    const struct mtk_view *const views[] = {q, k, v, out};
    mt_status status = mtk_flash_check("attention", views, 4);
    if (status != MT_OK)
        return status;
    if (mtk_attention_on_hopper(queue->capability, q))
        return mtk_hopper_attention(call_of<mtk_bf16>(scale, out, lse, q, k, v), q, k, v, queue);
    if (q->dtype == MT_BF16)
        return forward(call_of<mtk_bf16>(scale, out, lse, q, k, v), queue);
    const mtk_flash<float> call = call_of<float>(scale, out, lse, q, k, v);
    return math == MTK_MATH_TF32 ? forward(call, queue) : forward_plain(call, queue);
}
