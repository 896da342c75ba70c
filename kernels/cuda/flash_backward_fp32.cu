/* The gradients of causal attention in fp32, without matrix units. Formulas and the order of sums are in
 * flash_backward.cu. Here a separate kernel, which runs first, computes delta. */
#include "kernels/cuda/plain_tiles.cuh"

namespace
{

constexpr int DELTA_THREADS = 256, DELTA_WARPS = DELTA_THREADS / 32;

/* delta_t = grad_t·out_t. A warp computes one row, a block DELTA_WARPS rows. Every element of delta is written. */
__global__ void __launch_bounds__(DELTA_THREADS) delta_kernel(const __grid_constant__ mtk_flash<float> call)
{
    mtk_await_turn();
    int64_t number = (int64_t)blockIdx.x * DELTA_WARPS + threadIdx.x / 32;
    if (number >= (int64_t)call.total * call.length)
        return;
    int head = (int)(number / call.length), row = (int)(number % call.length), lane = (int)threadIdx.x % 32;
    mtk_part part = {0, head / call.heads, head % call.heads};
    mtk_head<float> grad = mtk_head_of(call.grad, part), out = mtk_head_of(call.out, part);
    mtk_head<float> delta = mtk_head_of(call.delta, part);
    float sum = 0;
    for (int d = lane; d < call.features; d += 32)
        sum += grad.base[row * grad.row + d] * out.base[row * out.row + d];
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0)
        delta.base[row * delta.row] = sum;
}

/* Returns the size of two tiles of own rows, two of streamed rows, and two of the results of products. */
template <int WIDTH> constexpr unsigned shared_bytes()
{
    return (2 * (MTK_OWN + MTK_STREAM) * mtk_plain_pitch(WIDTH) + 2 * MTK_OWN * MTK_WEIGHT_PITCH) * sizeof(float);
}

/* The tiles in shared memory. */
template <int WIDTH> struct space {
    float *own, *own_too, *streamed, *streamed_too, *weights, *slopes;

    __device__ explicit space(float *from)
        : own(from), own_too(own + MTK_OWN * mtk_plain_pitch(WIDTH)),
          streamed(own_too + MTK_OWN * mtk_plain_pitch(WIDTH)),
          streamed_too(streamed + MTK_STREAM * mtk_plain_pitch(WIDTH)),
          weights(streamed_too + MTK_STREAM * mtk_plain_pitch(WIDTH)), slopes(weights + MTK_OWN * MTK_WEIGHT_PITCH)
    {
    }
};

/* The rows of a block. With OWN_KEYS it has keys and values, and streams queries and the output's gradient; with
 * OWN_QUERIES it is the other way round. */
enum own_rows { OWN_KEYS, OWN_QUERIES };

/* The rows that a block streams, and the columns of its queries. */
struct streams {
    mtk_head<float> rows, rows_too, lse, delta;
};

template <own_rows OWN_ARE>
__device__ __forceinline__ streams streams_of(const mtk_flash<float> &call, const mtk_part &part)
{
    return {mtk_head_of(OWN_ARE == OWN_KEYS ? call.q : call.k, part),
            mtk_head_of(OWN_ARE == OWN_KEYS ? call.grad : call.v, part), mtk_head_of(call.lse, part),
            mtk_head_of(call.delta, part)};
}

/* Copies the own rows from `first` on. They arrive by the next barrier. */
template <int WIDTH, own_rows OWN_ARE>
__device__ __forceinline__ void take_own(const space<WIDTH> &space, const mtk_flash<float> &call, const mtk_part &part,
                                         int first)
{
    mtk_plain_copy<WIDTH, MTK_OWN>(space.own, mtk_head_of(OWN_ARE == OWN_KEYS ? call.k : call.q, part), first,
                                   call.length, call.features);
    mtk_plain_copy<WIDTH, MTK_OWN>(space.own_too, mtk_head_of(OWN_ARE == OWN_KEYS ? call.v : call.grad, part), first,
                                   call.length, call.features);
}

/* Converts the product of a query and a key to p, and the product of `grad` and v to s. */
__device__ __forceinline__ void differentiate(float &weight, float &slope, const mtk_flash<float> &call,
                                              const streams &from, int query, int key)
{
    bool seen = key <= query && query < call.length;
    weight = seen ? expf(weight * call.scale - from.lse.base[query * from.lse.row]) : 0;
    slope = seen ? call.scale * weight * (slope - from.delta.base[query * from.delta.row]) : 0;
}

/* Streams the rows from `first` on into the space, and computes p and s of each pair with the own rows, from
 * `first_own` on. */
template <int WIDTH, own_rows OWN_ARE>
__device__ __forceinline__ void meet(float (&weight)[MTK_OWN_EACH][MTK_STREAM_EACH],
                                     float (&slope)[MTK_OWN_EACH][MTK_STREAM_EACH], const space<WIDTH> &space,
                                     const mtk_flash<float> &call, const streams &from, int first_own, int first)
{
    __syncthreads();
    mtk_plain_copy<WIDTH, MTK_STREAM>(space.streamed, from.rows, first, call.length, call.features);
    mtk_plain_copy<WIDTH, MTK_STREAM>(space.streamed_too, from.rows_too, first, call.length, call.features);
    __syncthreads();
    mtk_plain_dots<WIDTH>(weight, space.own, space.streamed);
    mtk_plain_dots<WIDTH>(slope, space.own_too, space.streamed_too);
#pragma unroll
    for (int i = 0; i < MTK_OWN_EACH; i++)
#pragma unroll
        for (int j = 0; j < MTK_STREAM_EACH; j++) {
            int own = first_own + mtk_y() + i * MTK_SIDE, streamed = first + mtk_x() + j * MTK_SIDE;
            differentiate(weight[i][j], slope[i][j], call, from, OWN_ARE == OWN_KEYS ? streamed : own,
                          OWN_ARE == OWN_KEYS ? own : streamed);
        }
}

template <int WIDTH>
__device__ __forceinline__ void write(const mtk_heads<float> &heads, const mtk_flash<float> &call, const mtk_part &part,
                                      int first, const float (&sum)[MTK_OWN_EACH][WIDTH / MTK_SIDE])
{
    const float ones[MTK_OWN_EACH] = {1, 1, 1, 1};
    mtk_plain_write<WIDTH>(mtk_head_of(heads, part), first, call.length, call.features, sum, ones);
}

/* dk and dv. A block has MTK_OWN keys of one head, a thread rows y + 16 i and columns x + 16 j. Every row is
 * written. */
template <int WIDTH>
__global__ void __launch_bounds__(MTK_PLAIN_THREADS) key_gradients(const __grid_constant__ mtk_flash<float> call)
{
    extern __shared__ __align__(16) float plain_tiles[];
    const space<WIDTH> space(plain_tiles);
    mtk_await_turn();
    mtk_part part = mtk_part_of(call);
    const streams from = streams_of<OWN_KEYS>(call, part);
    int first_key = part.tile * MTK_OWN;
    float dk[MTK_OWN_EACH][WIDTH / MTK_SIDE], dv[MTK_OWN_EACH][WIDTH / MTK_SIDE];
    mtk_plain_clear<WIDTH>(dk);
    mtk_plain_clear<WIDTH>(dv);
    take_own<WIDTH, OWN_KEYS>(space, call, part, first_key);
    for (int first = first_key; first < call.length; first += MTK_STREAM) {
        float weight[MTK_OWN_EACH][MTK_STREAM_EACH], slope[MTK_OWN_EACH][MTK_STREAM_EACH];
        meet<WIDTH, OWN_KEYS>(weight, slope, space, call, from, first_key, first);
        mtk_plain_share(space.weights, weight);
        mtk_plain_share(space.slopes, slope);
        __syncthreads();
        mtk_plain_add<WIDTH>(dv, space.weights, space.streamed_too);
        mtk_plain_add<WIDTH>(dk, space.slopes, space.streamed);
    }
    write<WIDTH>(call.dk, call, part, first_key, dk);
    write<WIDTH>(call.dv, call, part, first_key, dv);
}

/* dq. A block has MTK_OWN queries of one head, a thread rows y + 16 i and columns x + 16 j. Every row is written. */
template <int WIDTH>
__global__ void __launch_bounds__(MTK_PLAIN_THREADS) query_gradients(const __grid_constant__ mtk_flash<float> call)
{
    extern __shared__ __align__(16) float plain_tiles[];
    const space<WIDTH> space(plain_tiles);
    mtk_await_turn();
    mtk_part part = mtk_part_of(call);
    const streams from = streams_of<OWN_QUERIES>(call, part);
    int first_query = ((int)(gridDim.x / (unsigned)call.total) - 1 - part.tile) * MTK_OWN;
    int end = min(first_query + MTK_OWN, call.length);
    float dq[MTK_OWN_EACH][WIDTH / MTK_SIDE];
    mtk_plain_clear<WIDTH>(dq);
    take_own<WIDTH, OWN_QUERIES>(space, call, part, first_query);
    for (int first = 0; first < end; first += MTK_STREAM) {
        float weight[MTK_OWN_EACH][MTK_STREAM_EACH], slope[MTK_OWN_EACH][MTK_STREAM_EACH];
        meet<WIDTH, OWN_QUERIES>(weight, slope, space, call, from, first_query, first);
        mtk_plain_share(space.slopes, slope);
        __syncthreads();
        mtk_plain_add<WIDTH>(dq, space.slopes, space.streamed);
    }
    write<WIDTH>(call.dq, call, part, first_query, dq);
}

mt_status launch_delta(const mtk_flash<float> &call, struct mtk_queue *queue)
{
    int64_t blocks = mtk_ceiling((int64_t)call.total * call.length, DELTA_WARPS);
    return mtk_launch("attention_grad (delta)", delta_kernel, (unsigned)blocks, DELTA_THREADS, queue, call);
}

template <int WIDTH> mt_status launch(const mtk_flash<float> &call, struct mtk_queue *queue)
{
    unsigned blocks = (unsigned)mtk_flash_blocks(call, MTK_OWN);
    mt_status status = mtk_launch_shared("attention_grad (dk, dv)", key_gradients<WIDTH>, blocks, MTK_PLAIN_THREADS,
                                         shared_bytes<WIDTH>(), queue, call);
    if (status != MT_OK)
        return status;
    return mtk_launch_shared("attention_grad (dq)", query_gradients<WIDTH>, blocks, MTK_PLAIN_THREADS,
                             shared_bytes<WIDTH>(), queue, call);
}

} // namespace

mt_status mtk_flash_backward_fp32(const mtk_flash<float> &call, struct mtk_queue *queue)
{
    mt_status status = launch_delta(call, queue);
    if (status != MT_OK)
        return status;
    return mtk_with_width(call.features, [&](auto width) { return launch<decltype(width)::value>(call, queue); });
}
