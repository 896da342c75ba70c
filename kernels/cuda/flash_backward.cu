/* The gradients of causal attention, from recomputed weights. With p = e^(scale q·k - lse), delta_t = grad_t·out_t, and
 * s = scale p (grad·v - delta):
 *
 *   dv_u = sum over t >= u of p grad_t     dk_u = sum over t >= u of s q_t     dq_t = sum over u <= t of s k_u
 *
 * There are two kernels. For dq, a block has some queries, writes delta, and streams the keys before the queries. For
 * dk and dv, a block has some keys and streams the queries after them. So one thread sums each element in a fixed
 * order, at the price of computing p and grad·v twice. Every row is written, nothing is added to.
 *
 * bf16 is multiplied on the matrix units and summed in fp32; p and s are rounded to bf16 before they are multiplied.
 * fp32 is multiplied without rounding (flash_backward_fp32.cu) or, if requested, on the matrix units, rounded to tf32.
 * Dao et al., "FlashAttention", 2022; Dao, "FlashAttention-2", 2023. */
#include "kernels/attention_plan.h"
#include "kernels/cuda/fragments.cuh"

#include <math_constants.h>

namespace
{

__device__ __forceinline__ float value_of(float value)
{
    return value;
}

__device__ __forceinline__ float value_of(mtk_bf16 value)
{
    return __bfloat162float(value);
}

/* A block has OWN rows, a warp 16 of them, and streams tiles of other rows. A warp processes SUB of those at once. */
constexpr int WARPS = 4, THREADS = 32 * WARPS, OWN = 16 * WARPS, SUB = 32;

template <class E, int WIDTH> __host__ __device__ constexpr int streamed()
{
    return sizeof(E) == 2 && WIDTH <= 80 ? 64 : 32;
}

/* Shared memory has two pairs of streamed tiles. bf16 tiles of own rows are first loaded into them, and from there into
 * registers; fp32 tiles of own rows have a separate place after them. Two pairs of columns follow, for dk and dv. */
template <class E, int WIDTH> __host__ __device__ constexpr int own_begin() /* in rows */
{
    return sizeof(E) == 2 ? 0 : 4 * streamed<E, WIDTH>();
}

template <class E, int WIDTH> __host__ __device__ constexpr int columns_begin()
{
    return sizeof(E) == 2 ? 4 * streamed<E, WIDTH>() : own_begin<E, WIDTH>() + 2 * OWN;
}

template <class E, int WIDTH> constexpr unsigned shared_bytes()
{
    return columns_begin<E, WIDTH>() * mtk_pitch<E>(WIDTH) * sizeof(E) + 4 * streamed<E, WIDTH>() * sizeof(float);
}

/* Converts the product of own and streamed rows to weights p, and the product of `grad` and v to s / scale. COLUMNS has
 * lse, times log2(e), and delta of each element. */
template <class COLUMNS>
__device__ __forceinline__ void differentiate(float (&weight)[SUB / 8][4], float (&slope)[SUB / 8][4], float scale_log2,
                                              const COLUMNS &columns)
{
#pragma unroll
    for (int n = 0; n < SUB / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            weight[n][e] = mtk_exp2(weight[n][e] * scale_log2 - columns.lse(n, e));
            slope[n][e] = weight[n][e] * (slope[n][e] - columns.delta(n, e));
        }
}

/* lse and delta of a thread's streamed columns, 2 in each piece. */
struct streamed_columns {
    float2 lses[SUB / 8], deltas[SUB / 8];

    __device__ __forceinline__ streamed_columns(const float *lse, const float *delta)
    {
#pragma unroll
        for (int n = 0; n < SUB / 8; n++) {
            int column = n * 8 + (int)threadIdx.x % 4 * 2;
            lses[n] = *reinterpret_cast<const float2 *>(lse + column);
            lses[n].x *= MTK_LOG2_E;
            lses[n].y *= MTK_LOG2_E;
            deltas[n] = *reinterpret_cast<const float2 *>(delta + column);
        }
    }

    __device__ __forceinline__ float lse(int n, int e) const
    {
        return e % 2 == 0 ? lses[n].x : lses[n].y;
    }

    __device__ __forceinline__ float delta(int n, int e) const
    {
        return e % 2 == 0 ? deltas[n].x : deltas[n].y;
    }
};

/* lse and delta of a thread's own rows, g and g + 8. */
struct own_columns {
    float lses[2], deltas[2];

    __device__ __forceinline__ float lse(int, int e) const
    {
        return lses[e / 2];
    }

    __device__ __forceinline__ float delta(int, int e) const
    {
        return deltas[e / 2];
    }
};

/* Sets the score to -inf if the key comes after the query. `first_own` and `first_streamed` are the numbers of a warp's
 * first row and column. */
enum own_rows { OWN_KEYS, OWN_QUERIES };
template <own_rows OWN_ARE>
__device__ __forceinline__ void mask(float (&score)[SUB / 8][4], int first_own, int first_streamed)
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < SUB / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int own = first_own + lane / 4 + e / 2 * 8, other = first_streamed + n * 8 + lane % 4 * 2 + e % 2;
            if (OWN_ARE == OWN_KEYS ? own > other : other > own)
                score[n][e] = -CUDART_INF_F;
        }
}

/* Starts to copy the streamed queries from `first` on: q, grad, lse and delta. */
template <int WIDTH, class E>
__device__ __forceinline__ void copy_queries(E *tile, float *columns, const mtk_flash<E> &call, mtk_part part,
                                             int first)
{
    constexpr int ROWS = streamed<E, WIDTH>();
    static_assert(2 * ROWS <= THREADS, "a thread copies one number of the columns");
    mtk_tile_copy<WIDTH, ROWS, THREADS>(tile, mtk_head_of(call.q, part), first, call.length, call.features);
    mtk_tile_copy<WIDTH, ROWS, THREADS>(tile + ROWS * mtk_pitch<E>(WIDTH), mtk_head_of(call.grad, part), first,
                                        call.length, call.features);
    int n = (int)threadIdx.x, row = first + n % ROWS;
    if (n >= 2 * ROWS)
        return;
    mtk_head<float> column = mtk_head_of(n < ROWS ? call.lse : call.delta, part);
    bool there = row < call.length;
    mtk_copy_4(columns + n, there ? column.base + row * column.row : column.base, there);
}

/* dk_u = sum over t >= u of s q_t and dv_u = sum over t >= u of p grad_t. A block has OWN keys of one head, a warp 16
 * of them. Keys are the rows of products, queries the columns. Every row of dk and dv is written. */
template <class E, int WIDTH>
__global__ void __launch_bounds__(THREADS, WIDTH <= 64                     ? 3
                                           : sizeof(E) == 2 || WIDTH <= 80 ? 2
                                                                           : 1)
    key_gradients(const __grid_constant__ mtk_flash<E> call)
{
    extern __shared__ __align__(16) char shared[];
    constexpr int PITCH = mtk_pitch<E>(WIDTH), ROWS = streamed<E, WIDTH>(), TILE = ROWS * PITCH;
    E *tiles = reinterpret_cast<E *>(shared), *own_tiles = tiles + own_begin<E, WIDTH>() * PITCH;
    mtk_await_turn();
    mtk_part part = mtk_part_of(call);
    int first_key = part.tile * OWN, warp_key = (int)threadIdx.x / 32 * 16, own = first_key + warp_key;
    float scale_log2 = call.scale * MTK_LOG2_E;
    mtk_left<E, WIDTH> k, v;
    float dk[WIDTH / 8][4], dv[WIDTH / 8][4];
    mtk_tile_copy<WIDTH, OWN, THREADS>(own_tiles, mtk_head_of(call.k, part), first_key, call.length, call.features);
    mtk_tile_copy<WIDTH, OWN, THREADS>(own_tiles + OWN * PITCH, mtk_head_of(call.v, part), first_key, call.length,
                                       call.features);
    mtk_copies_wait();
    __syncthreads();
    k.read(own_tiles, warp_key);
    v.read(own_tiles + OWN * PITCH, warp_key);
    mtk_clear(dk);
    mtk_clear(dv);
    __syncthreads();
    E *here = tiles, *next = tiles + 2 * TILE;
    float *here_columns = reinterpret_cast<float *>(tiles + columns_begin<E, WIDTH>() * PITCH);
    float *next_columns = here_columns + 2 * ROWS;
    copy_queries<WIDTH>(here, here_columns, call, part, first_key);
    for (int first = first_key; first < call.length; first += ROWS) {
        mtk_copies_wait();
        __syncthreads(); /* this tile has arrived, and no thread still reads the previous one */
        if (first + ROWS < call.length)
            copy_queries<WIDTH>(next, next_columns, call, part, first + ROWS);
#pragma unroll
        for (int sub = 0; sub < ROWS; sub += SUB) {
            const E *q = here + sub * PITCH, *grad = q + TILE;
            const float *lse = here_columns + sub, *delta = lse + ROWS;
            float weight[SUB / 8][4], slope[SUB / 8][4];
            mtk_made<E, SUB / 8> left;
            if (first + sub + SUB - 1 < own) /* all of these queries come before the warp's keys */
                continue;
            mtk_clear(weight);
            mtk_clear(slope);
            mtk_times_rows<WIDTH>(weight, k, q);
            mtk_times_rows<WIDTH>(slope, v, grad);
            if (first + sub < own + 15)
                mask<OWN_KEYS>(weight, own, first + sub);
            differentiate(weight, slope, scale_log2, streamed_columns(lse, delta));
            mtk_left_of(left, weight);
            mtk_times_tile<WIDTH>(dv, left, grad);
            mtk_left_of(left, slope);
            mtk_times_tile<WIDTH>(dk, left, q);
        }
        E *was = here;
        here = next;
        next = was;
        float *columns_were = here_columns;
        here_columns = next_columns;
        next_columns = columns_were;
    }
    mtk_rows_write<WIDTH>(mtk_head_of(call.dk, part), first_key + warp_key, call.length, call.features, dk, call.scale,
                          call.scale);
    mtk_rows_write<WIDTH>(mtk_head_of(call.dv, part), first_key + warp_key, call.length, call.features, dv, 1, 1);
}

/* Starts to copy the streamed keys and values from `first` on. */
template <int WIDTH, class E>
__device__ __forceinline__ void copy_keys(E *tile, const mtk_flash<E> &call, mtk_part part, int first)
{
    constexpr int ROWS = streamed<E, WIDTH>();
    mtk_tile_copy<WIDTH, ROWS, THREADS>(tile, mtk_head_of(call.k, part), first, call.length, call.features);
    mtk_tile_copy<WIDTH, ROWS, THREADS>(tile + ROWS * mtk_pitch<E>(WIDTH), mtk_head_of(call.v, part), first,
                                        call.length, call.features);
}

/* Returns delta of a row. Four threads share it; each reads 16 of every 64 bytes. */
template <class E> __device__ __forceinline__ float delta_of(const mtk_flash<E> &call, mtk_part part, int row)
{
    constexpr int EACH = 16 / (int)sizeof(E);
    mtk_head<E> grads = mtk_head_of(call.grad, part), outs = mtk_head_of(call.out, part);
    const E *grad = grads.base + row * grads.row, *out = outs.base + row * outs.row;
    float sum = 0;
    for (int d = (int)threadIdx.x % 4 * EACH; d < call.features; d += 4 * EACH) {
        uint4 grad_words = *reinterpret_cast<const uint4 *>(grad + d),
              out_words = *reinterpret_cast<const uint4 *>(out + d);
        const E *grad_values = reinterpret_cast<const E *>(&grad_words),
                *out_values = reinterpret_cast<const E *>(&out_words);
#pragma unroll
        for (int e = 0; e < EACH; e++)
            sum += value_of(grad_values[e]) * value_of(out_values[e]);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    return sum + __shfl_xor_sync(~0u, sum, 2);
}

/* dq_t = sum over u <= t of s k_u, and delta_t = grad_t·out_t. A block has OWN queries of one head, a warp 16 of them.
 * Every row of dq and delta is written. */
template <class E, int WIDTH>
__global__ void __launch_bounds__(THREADS, sizeof(E) == 2 ? (WIDTH <= 64 ? 4 : 2)
                                           : WIDTH <= 64  ? 3
                                           : WIDTH <= 80  ? 2
                                                         : 1) query_gradients(const __grid_constant__ mtk_flash<E> call)
{
    extern __shared__ __align__(16) char shared[];
    constexpr int PITCH = mtk_pitch<E>(WIDTH), ROWS = streamed<E, WIDTH>(), TILE = ROWS * PITCH;
    E *tiles = reinterpret_cast<E *>(shared), *own_tiles = tiles + own_begin<E, WIDTH>() * PITCH;
    mtk_await_turn();
    mtk_part part = mtk_part_of(call);
    int lane = (int)threadIdx.x % 32, warp_query = (int)threadIdx.x / 32 * 16;
    int first_query = ((int)(gridDim.x / (unsigned)call.total) - 1 - part.tile) * OWN, own = first_query + warp_query;
    int end = min(first_query + OWN, call.length);
    float scale_log2 = call.scale * MTK_LOG2_E, dq[WIDTH / 8][4];
    own_columns columns;
    mtk_left<E, WIDTH> q, grad;
    mtk_tile_copy<WIDTH, OWN, THREADS>(own_tiles, mtk_head_of(call.q, part), first_query, call.length, call.features);
    mtk_tile_copy<WIDTH, OWN, THREADS>(own_tiles + OWN * PITCH, mtk_head_of(call.grad, part), first_query, call.length,
                                       call.features);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        mtk_head<float> lses = mtk_head_of(call.lse, part), deltas = mtk_head_of(call.delta, part);
        int row = min(first_query + warp_query + lane / 4 + half * 8, call.length - 1);
        columns.lses[half] = lses.base[row * lses.row] * MTK_LOG2_E;
        columns.deltas[half] = delta_of(call, part, row);
        if (lane % 4 == 0)
            deltas.base[row * deltas.row] = columns.deltas[half];
    }
    mtk_copies_wait();
    __syncthreads();
    q.read(own_tiles, warp_query);
    grad.read(own_tiles + OWN * PITCH, warp_query);
    mtk_clear(dq);
    __syncthreads();
    E *here = tiles, *next = tiles + 2 * TILE;
    copy_keys<WIDTH>(here, call, part, 0);
    for (int first = 0; first < end; first += ROWS) {
        mtk_copies_wait();
        __syncthreads(); /* this tile has arrived, and no thread still reads the previous one */
        if (first + ROWS < end)
            copy_keys<WIDTH>(next, call, part, first + ROWS);
#pragma unroll
        for (int sub = 0; sub < ROWS; sub += SUB) {
            const E *keys = here + sub * PITCH, *values = keys + TILE;
            float weight[SUB / 8][4], slope[SUB / 8][4];
            mtk_made<E, SUB / 8> left;
            if (first + sub > own + 15) /* all of these keys come after the warp's queries */
                continue;
            mtk_clear(weight);
            mtk_clear(slope);
            mtk_times_rows<WIDTH>(weight, q, keys);
            mtk_times_rows<WIDTH>(slope, grad, values);
            if (first + sub + SUB - 1 > own)
                mask<OWN_QUERIES>(weight, own, first + sub);
            differentiate(weight, slope, scale_log2, columns);
            mtk_left_of(left, slope);
            mtk_times_tile<WIDTH>(dq, left, keys);
        }
        E *was = here;
        here = next;
        next = was;
    }
    mtk_rows_write<WIDTH>(mtk_head_of(call.dq, part), first_query + warp_query, call.length, call.features, dq,
                          call.scale, call.scale);
}

template <class E, int WIDTH> mt_status launch(const mtk_flash<E> &call, struct mtk_queue *queue)
{
    unsigned blocks = (unsigned)mtk_flash_blocks(call, OWN);
    mt_status status = mtk_launch_shared("attention_grad (dq)", query_gradients<E, WIDTH>, blocks, THREADS,
                                         shared_bytes<E, WIDTH>(), queue, call);
    if (status != MT_OK)
        return status;
    return mtk_launch_shared("attention_grad (dk, dv)", key_gradients<E, WIDTH>, blocks, THREADS,
                             shared_bytes<E, WIDTH>(), queue, call);
}

template <class E> mtk_flash<E> call_of(const struct mtk_attention_grad *grad)
{
    mtk_flash<E> call = mtk_flash_of<E>(grad->scale, &grad->q);
    call.q = mtk_heads_of<E>(&grad->q);
    call.k = mtk_heads_of<E>(&grad->k);
    call.v = mtk_heads_of<E>(&grad->v);
    call.out = mtk_heads_of<E>(&grad->out);
    call.lse = mtk_heads_of<float>(&grad->lse);
    call.grad = mtk_heads_of<E>(&grad->grad);
    call.dq = mtk_heads_of<E>(&grad->dq);
    call.dk = mtk_heads_of<E>(&grad->dk);
    call.dv = mtk_heads_of<E>(&grad->dv);
    call.delta = mtk_heads_of<float>(&grad->delta);
    return call;
}

template <class E> mt_status backward(const mtk_flash<E> &call, struct mtk_queue *queue)
{
    return mtk_with_width(call.features, [&](auto width) { return launch<E, decltype(width)::value>(call, queue); });
}

} // namespace

mt_status mtk_cuda_attention_grad(const struct mtk_attention_grad *call, struct mtk_queue *queue)
{
    const struct mtk_view *const views[] = {&call->q,    &call->k,  &call->v,  &call->out,
                                            &call->grad, &call->dq, &call->dk, &call->dv};
    mt_status status = mtk_flash_check("attention_grad", views, 8);
    if (status != MT_OK)
        return status;
    if (mtk_attention_on_hopper(queue->capability, &call->q))
        return mtk_hopper_attention_grad(call_of<mtk_bf16>(call), call, queue);
    if (call->q.dtype == MT_BF16)
        return backward(call_of<mtk_bf16>(call), queue);
    return call->math == MTK_MATH_TF32 ? backward(call_of<float>(call), queue)
                                       : mtk_flash_backward_fp32(call_of<float>(call), queue);
}
