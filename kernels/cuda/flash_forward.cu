/* Causal attention: out_t = sum over u <= t of e^(scale q_t·k_u - lse_t) v_u, lse_t = ln of the sum of e^(scale q_t·k_u).
 *
 * A block takes some queries of a head and streams keys and values past them, tile by tile, up to the last query; a query
 * keeps the maximum and the sum of its exponentials so far, and what it has of its output is shrunk when the maximum grows.
 * Dao et al., "FlashAttention", 2022; Dao, "FlashAttention-2", 2023.
 *
 * bf16 is multiplied on the matrix units and summed in fp32; a weight is rounded to bf16 before it multiplies. fp32 is
 * multiplied as it is. Every row of `out` and, where wanted, of `lse` is written; nothing is added to. */
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/plain_tiles.cuh"

#include <math_constants.h>

namespace
{

constexpr int QUERIES = 128, KEYS = 64, WARPS = 8, THREADS = 32 * WARPS, WARP_QUERIES = QUERIES / WARPS;

/* Two pairs of tiles of keys and values, of which the second first holds the queries. */
template <int WIDTH> constexpr unsigned shared_bytes()
{
    return 4 * KEYS * mtk_pitch(WIDTH) * sizeof(mtk_bf16);
}

/* The state of a warp's queries: a thread has rows g and g + 8 of them, of sums its part. */
template <int WIDTH> struct walk {
    uint32_t q[WIDTH / 16][4];
    float out[WIDTH / 8][4];
    float maximum[2], sum[2];
};

/* -inf where the key (first + column) comes after the query. */
__device__ __forceinline__ void mask(float (&score)[KEYS / 8][4], int query, int first)
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (first + n * 8 + lane % 4 * 2 + e % 2 > query + lane / 4 + e / 2 * 8)
                score[n][e] = -CUDART_INF_F;
}

/* The maximum of row g (half 0) or g + 8 (half 1), which four threads share. */
__device__ __forceinline__ float row_maximum(const float (&score)[KEYS / 8][4], int half, float maximum)
{
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
        maximum = fmaxf(maximum, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
    return fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
}

/* Turns scores into weights, with the maximum as it is now, and shrinks what there is to that. */
template <int WIDTH>
__device__ __forceinline__ void weigh(walk<WIDTH> &w, float (&score)[KEYS / 8][4], float scale_log2)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float maximum = row_maximum(score, half, w.maximum[half]), shift = maximum * scale_log2;
        float shrink = mtk_exp2(w.maximum[half] * scale_log2 - shift), sum = 0;
        w.maximum[half] = maximum;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
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

/* A warp's queries, from `query` on, meet the keys from `first` on. */
template <int WIDTH>
__device__ __forceinline__ void meet(walk<WIDTH> &w, const mtk_bf16 *keys, const mtk_bf16 *values, int query, int first,
                                     float scale_log2)
{
    float score[KEYS / 8][4];
    uint32_t weights[KEYS / 16][4];
    mtk_clear(score);
    mtk_times_rows<WIDTH>(score, w.q, keys);
    if (first + KEYS - 1 > query)
        mask(score, query, first);
    weigh(w, score, scale_log2);
    mtk_left_of(weights, score);
    mtk_times_tile<WIDTH>(w.out, weights, values);
}

/* Divides by the sums, and writes. */
template <int WIDTH>
__device__ __forceinline__ void arrive(walk<WIDTH> &w, const mtk_flash<mtk_bf16> &call, mtk_part part, int query)
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

/* A block takes QUERIES queries, a warp 16 of them. */
template <int WIDTH>
__global__ void __launch_bounds__(THREADS, WIDTH <= 80 ? 2 : 1)
    attention_bf16(const __grid_constant__ mtk_flash<mtk_bf16> call)
{
    extern __shared__ __align__(16) mtk_bf16 tiles[];
    constexpr int TILE = KEYS * mtk_pitch(WIDTH);
    mtk_await_turn();
    mtk_part part = mtk_part_of(call);
    const mtk_head<mtk_bf16> k = mtk_head_of(call.k, part), v = mtk_head_of(call.v, part);
    int last_part = (int)(gridDim.x / (unsigned)call.total) - 1;
    int block_query = (last_part - part.tile) * QUERIES, query = block_query + (int)threadIdx.x / 32 * WARP_QUERIES;
    int end = min(block_query + QUERIES, call.length);
    walk<WIDTH> w;
    mtk_tile_copy<WIDTH, QUERIES, THREADS>(tiles + 2 * TILE, mtk_head_of(call.q, part), block_query, call.length,
                                           call.features);
    mtk_tile_copy<WIDTH, KEYS, THREADS>(tiles, k, 0, call.length, call.features);
    mtk_tile_copy<WIDTH, KEYS, THREADS>(tiles + TILE, v, 0, call.length, call.features);
    mtk_copies_wait();
    __syncthreads();
    mtk_left_read<WIDTH>(w.q, tiles + 2 * TILE, query - block_query);
    mtk_clear(w.out);
    w.maximum[0] = w.maximum[1] = -CUDART_INF_F;
    w.sum[0] = w.sum[1] = 0;
    mtk_bf16 *here = tiles, *next = tiles + 2 * TILE;
    for (int first = 0; first < end; first += KEYS) {
        mtk_copies_wait();
        __syncthreads(); /* this tile is there, and nobody reads the one before it any more */
        if (first + KEYS < end) {
            mtk_tile_copy<WIDTH, KEYS, THREADS>(next, k, first + KEYS, call.length, call.features);
            mtk_tile_copy<WIDTH, KEYS, THREADS>(next + TILE, v, first + KEYS, call.length, call.features);
        }
        if (first <= query + WARP_QUERIES - 1)
            meet(w, here, here + TILE, query, first, call.scale * MTK_LOG2_E);
        mtk_bf16 *was = here;
        here = next;
        next = was;
    }
    arrive(w, call, part, query);
}

template <int WIDTH> constexpr unsigned plain_shared_bytes()
{
    return ((MTK_OWN + 2 * MTK_STREAM) * mtk_plain_pitch(WIDTH) + MTK_OWN * MTK_WEIGHT_PITCH) * sizeof(float);
}

/* The largest, or the sum, of what the 16 threads of a row have. */
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

/* The state of a thread's rows. */
template <int WIDTH> struct plain_walk {
    float out[MTK_OWN_EACH][WIDTH / MTK_SIDE], maximum[MTK_OWN_EACH], sum[MTK_OWN_EACH];
};

/* Turns scores into weights as `weigh` does; row i of a thread is query + 16 i, column j key + 16 j. */
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

/* A block takes MTK_OWN queries. */
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

/* What is queued, by dtype. */
template <int WIDTH> mt_status launch(const mtk_flash<mtk_bf16> &call, struct mtk_queue *queue)
{
    return mtk_launch_shared("attention", attention_bf16<WIDTH>, (unsigned)mtk_flash_blocks(call, QUERIES), THREADS,
                             shared_bytes<WIDTH>(), queue, call);
}

template <int WIDTH> mt_status launch(const mtk_flash<float> &call, struct mtk_queue *queue)
{
    return mtk_launch_shared("attention", attention_fp32<WIDTH>, (unsigned)mtk_flash_blocks(call, MTK_OWN),
                             MTK_PLAIN_THREADS, plain_shared_bytes<WIDTH>(), queue, call);
}

template <class E>
mt_status forward(double scale, const struct mtk_view *out, const struct mtk_view *lse, const struct mtk_view *q,
                  const struct mtk_view *k, const struct mtk_view *v, struct mtk_queue *queue)
{
    mtk_flash<E> call = mtk_flash_of<E>(scale, q);
    call.q = mtk_heads_of<E>(q);
    call.k = mtk_heads_of<E>(k);
    call.v = mtk_heads_of<E>(v);
    call.out = mtk_heads_of<E>(out);
    if (lse != nullptr)
        call.lse = mtk_heads_of<float>(lse);
    return mtk_with_width(call.features, [&](auto width) { return launch<decltype(width)::value>(call, queue); });
}

} // namespace

mt_status mtk_cuda_attention(double scale, const struct mtk_view *out, const struct mtk_view *lse,
                             const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v,
                             struct mtk_queue *queue)
{
    const struct mtk_view *const views[] = {q, k, v, out};
    mt_status status = mtk_flash_check("attention", views, 4);
    if (status != MT_OK)
        return status;
    return q->dtype == MT_BF16 ? forward<mtk_bf16>(scale, out, lse, q, k, v, queue)
                               : forward<float>(scale, out, lse, q, k, v, queue);
}
