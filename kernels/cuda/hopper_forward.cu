/* Causal attention in bf16 on Hopper: out and lse as in flash_forward.cu, with Hopper's primitives (hopper.cuh).
 *
 * A block has some queries of a head. One warp, the producer, loads tiles of keys and values through the copy engine,
 * from the last visible one to the first. Warpgroups, the consumers, have 64 queries each. A consumer starts the
 * product with the next keys, then the product of the last weights with their values, and computes the next weights
 * while the second is in flight. Consumers take turns at the matrix units, so that one multiplies while another
 * computes exponentials. Shah et al., "FlashAttention-3", 2024.
 *
 * A sum is relative to a reference, which follows the maximum only when that exceeds it by a factor of 2^8, so that
 * most tiles need no rescaling, as in FlashAttention-4. Every row of out and, if requested, of lse is written; nothing
 * is added to. */
#include "kernels/cuda/flash_hopper.cuh"

#include <math_constants.h>

namespace
{

constexpr int KEYS = 128, STAGES = 2;
constexpr float MOST_EXCESS = 8; /* of a maximum over its reference, as an exponent of 2 */

/* The shape of a block for heads of WIDTH columns. */
template <int WIDTH> struct shape {
    static constexpr int GROUPS = WIDTH <= 64 ? 3 : 2, QUERIES = MTK_GROUP_ROWS * GROUPS;
    static constexpr int THREADS = MTK_WARPGROUP * (GROUPS + 1);
    static constexpr int PRODUCER_REGISTERS = GROUPS == 3 ? 32 : 24, CONSUMER_REGISTERS = GROUPS == 3 ? 160 : 240;
    static constexpr uint32_t QUERY_BYTES = mtk_tile_bytes(QUERIES, WIDTH), KEY_BYTES = mtk_tile_bytes(KEYS, WIDTH);
};

/* A launch. Heads are processed in sections whose keys and values fit in the cache, longest tiles first in each
 * section. */
struct forward_call {
    mtk_tensor_map q, k, v;
    mtk_flash<mtk_bf16> call;
    int tiles, section; /* tiles of queries per head; heads per section */
    int parts;          /* of all heads: a block processes every gridDim.x-th */
};

using use = mtk_use<STAGES>;

struct barriers {
    uint64_t queries_full, queries_empty, keys_full[STAGES], keys_empty[STAGES], values_full[STAGES],
        values_empty[STAGES];
};

template <int WIDTH> struct shared_memory {
    alignas(MTK_TILE_ALIGN) char queries[shape<WIDTH>::QUERY_BYTES];
    alignas(MTK_TILE_ALIGN) char keys[STAGES][shape<WIDTH>::KEY_BYTES];
    alignas(MTK_TILE_ALIGN) char values[STAGES][shape<WIDTH>::KEY_BYTES];
    alignas(MTK_TILE_ALIGN) char outs[shape<WIDTH>::QUERY_BYTES];
    barriers barrier;
};

__device__ __forceinline__ mtk_part part_of(const forward_call &call, int n)
{
    int first = n / (call.section * call.tiles) * call.section;
    int heads = min(call.section, call.call.total - first), rest = n - first * call.tiles;
    int head = first + rest % heads;
    return {call.tiles - 1 - rest / heads, head / call.call.heads, head % call.call.heads};
}

/* Returns the last tile of keys that is visible to a part's queries. */
template <int WIDTH> __device__ __forceinline__ int last_of(const forward_call &call, const mtk_part &part)
{
    return (min((part.tile + 1) * shape<WIDTH>::QUERIES, call.call.length) - 1) / KEYS;
}

/* Loads the queries of each part, and keys and values from the last tile to the first, through the copy engine. */
template <int WIDTH> __device__ __forceinline__ void produce(shared_memory<WIDTH> &shared, const forward_call &call)
{
    using S = shape<WIDTH>;
    barriers &b = shared.barrier;
    uint32_t round = 0;
    use at = {0};
    for (int n = (int)blockIdx.x; n < call.parts; n += (int)gridDim.x, round++) {
        mtk_part part = part_of(call, n);
        mtk_barrier_wait(&b.queries_empty, (round & 1) ^ 1);
        mtk_barrier_expect(&b.queries_full, S::QUERY_BYTES);
        mtk_tile_load<WIDTH, S::QUERIES>(mtk_shared_address(shared.queries), &call.q, &b.queries_full,
                                         part.tile * S::QUERIES, part);
        for (int tile = last_of<WIDTH>(call, part); tile >= 0; tile--, at.n++) {
            int s = at.stage();
            mtk_barrier_wait(&b.keys_empty[s], at.phase() ^ 1);
            mtk_barrier_expect(&b.keys_full[s], S::KEY_BYTES);
            mtk_tile_load<WIDTH, KEYS>(mtk_shared_address(shared.keys[s]), &call.k, &b.keys_full[s], tile * KEYS, part);
            mtk_barrier_wait(&b.values_empty[s], at.phase() ^ 1);
            mtk_barrier_expect(&b.values_full[s], S::KEY_BYTES);
            mtk_tile_load<WIDTH, KEYS>(mtk_shared_address(shared.values[s]), &call.v, &b.values_full[s], tile * KEYS,
                                       part);
        }
    }
}

/* The results so far of a thread's two rows. Exponentials are relative to `reference`, which is a score. */
template <int WIDTH> struct results {
    float out[WIDTH / 2], reference[2], sum[2];
};

/* score = queries keys, for the 64 queries of a group. */
template <int WIDTH>
__device__ __forceinline__ void scores_begin(float (&score)[KEYS / 2], uint32_t queries, uint32_t keys)
{
    constexpr int ROWS = shape<WIDTH>::QUERIES;
    mtk_results_fence(score);
    mtk_products_begin();
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        uint32_t column = (uint32_t)(k % 4 * 32);
        mtk_product<0, 0>(score, mtk_operand<ROWS>(queries + (uint32_t)(k / 4 * ROWS) * MTK_CHUNK_ROW + column),
                          mtk_operand<KEYS>(keys + (uint32_t)(k / 4 * KEYS) * MTK_CHUNK_ROW + column), k > 0);
    }
    mtk_products_commit();
}

/* out += weights values. */
template <int WIDTH>
__device__ __forceinline__ void results_begin(float (&out)[WIDTH / 2], const uint32_t (&weight)[KEYS / 16][4],
                                              uint32_t values)
{
    mtk_results_fence(out);
    mtk_products_begin();
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
        mtk_product<1>(out, weight[k], mtk_operand<KEYS>(values + (uint32_t)(16 * k) * MTK_CHUNK_ROW), 1);
    mtk_products_commit();
}

/* Sets a score to -inf if its key comes after its query: `ahead` is the tile's first key minus the thread's first
 * row. */
__device__ __forceinline__ void mask(float (&score)[KEYS / 2], int ahead)
{
    int column = (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        if (ahead + i / 4 * 8 + column + i % 2 > i / 2 % 2 * 8)
            score[i] = -CUDART_INF_F;
}

/* Converts scores to weights. Sets `shrink` to the factors for rescaling the results so far. */
template <int WIDTH>
__device__ __forceinline__ void weigh(results<WIDTH> &r, float (&score)[KEYS / 2], float (&shrink)[2], float scale_log2)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float maximum = score[2 * half], other = score[2 * half + 1];
#pragma unroll
        for (int i = 1; i < KEYS / 8; i++) {
            maximum = fmaxf(maximum, score[4 * i + 2 * half]);
            other = fmaxf(other, score[4 * i + 2 * half + 1]);
        }
        maximum = fmaxf(maximum, other);
        maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
        maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
        shrink[half] = 1;
        if ((maximum - r.reference[half]) * scale_log2 > MOST_EXCESS) {
            shrink[half] = mtk_exp2((r.reference[half] - maximum) * scale_log2);
            r.reference[half] = maximum;
        }
        /* If the row sees no key, all scores are -inf, and the reference may be, too. */
        float shift = r.reference[half] == -CUDART_INF_F ? 0 : r.reference[half] * scale_log2, sum = 0, other_sum = 0;
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++) {
            float &low = score[4 * i + 2 * half], &high = score[4 * i + 2 * half + 1];
            low = mtk_exp2(low * scale_log2 - shift);
            high = mtk_exp2(high * scale_log2 - shift);
            sum += low;
            other_sum += high;
        }
        r.sum[half] = r.sum[half] * shrink[half] + sum + other_sum;
    }
}

template <int WIDTH> __device__ __forceinline__ void rescale(results<WIDTH> &r, const float (&shrink)[2])
{
    if (!__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1))
        return;
#pragma unroll
    for (int i = 0; i < WIDTH / 2; i++)
        r.out[i] *= shrink[i / 2 % 2];
}

__device__ __forceinline__ void pack(uint32_t (&weight)[KEYS / 16][4], const float (&score)[KEYS / 2])
{
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
        mtk_left_pack(weight[k], score, k);
}

/* Consumers take turns at the matrix units: `await_products` waits for this group's turn, `pass_products` passes it
 * on. */
__device__ __forceinline__ void await_products(int group)
{
    mtk_named_wait(1 + group, 2 * MTK_WARPGROUP);
}

template <int GROUPS> __device__ __forceinline__ void pass_products(int group)
{
    mtk_named_pass(1 + (group + 1) % GROUPS, 2 * MTK_WARPGROUP);
}

/* Divides the results by the sums and writes them. `row` is the warp's first query, `own` the same in the block. */
template <int WIDTH>
__device__ __forceinline__ void finish(results<WIDTH> &r, shared_memory<WIDTH> &shared, const mtk_flash<mtk_bf16> &call,
                                       const mtk_part &part, int row, int own)
{
    int lane = (int)threadIdx.x % 32;
    mtk_head<float> lse = mtk_head_of(call.lse, part);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        r.sum[half] += __shfl_xor_sync(~0u, r.sum[half], 1);
        r.sum[half] += __shfl_xor_sync(~0u, r.sum[half], 2);
        int at = row + lane / 4 + half * 8;
        if (call.lse.base != nullptr && lane % 4 == 0 && at < call.length)
            lse.base[at * lse.row] = r.reference[half] * call.scale + logf(r.sum[half]);
    }
    mtk_rows_store<WIDTH, shape<WIDTH>::QUERIES>(mtk_shared_address(shared.outs), own, mtk_head_of(call.out, part), row,
                                                 call.length, call.features, r.out, 1 / r.sum[0], 1 / r.sum[1]);
}

/* A consumer group's position in the block. */
struct consumer {
    int group, own;   /* its number; the warp's first query in the block */
    uint32_t queries; /* the group's queries, in shared memory */
};

/* Computes the scores of a part's last tile, and from them the first weights. */
template <int WIDTH>
__device__ __forceinline__ void take_first(shared_memory<WIDTH> &shared, const consumer &c, results<WIDTH> &r,
                                           uint32_t (&weight)[KEYS / 16][4], const use &at, int ahead, float scale_log2)
{
    float score[KEYS / 2], shrink[2];
    mtk_barrier_wait(&shared.barrier.keys_full[at.stage()], at.phase());
    scores_begin<WIDTH>(score, c.queries, mtk_shared_address(shared.keys[at.stage()]));
#pragma unroll
    for (int i = 0; i < WIDTH / 2; i++)
        r.out[i] = 0;
    r.reference[0] = r.reference[1] = -CUDART_INF_F;
    r.sum[0] = r.sum[1] = 0;
    mtk_products_wait<0>();
    mtk_results_fence(score);
    mtk_leave(&shared.barrier.keys_empty[at.stage()]);
    mask(score, ahead - (int)threadIdx.x % 32 / 4);
    weigh(r, score, shrink, scale_log2);
    pack(weight, score);
}

/* Computes the scores of the tile of use `at` while the weights of the previous tile are multiplied with their values.
 * `ahead` is the tile's first key minus the warp's first query. */
template <int WIDTH>
__device__ __forceinline__ void take_tile(shared_memory<WIDTH> &shared, const consumer &c, results<WIDTH> &r,
                                          uint32_t (&weight)[KEYS / 16][4], const use &at, int ahead, float scale_log2)
{
    barriers &b = shared.barrier;
    use before = {at.n - 1};
    float score[KEYS / 2], shrink[2];
    mtk_barrier_wait(&b.keys_full[at.stage()], at.phase());
    await_products(c.group);
    scores_begin<WIDTH>(score, c.queries, mtk_shared_address(shared.keys[at.stage()]));
    mtk_barrier_wait(&b.values_full[before.stage()], before.phase());
    results_begin<WIDTH>(r.out, weight, mtk_shared_address(shared.values[before.stage()]));
    pass_products<shape<WIDTH>::GROUPS>(c.group);
    mtk_products_wait<1>();
    mtk_results_fence(score);
    mtk_leave(&b.keys_empty[at.stage()]);
    if (ahead + KEYS - 1 > 0)
        mask(score, ahead - (int)threadIdx.x % 32 / 4);
    weigh(r, score, shrink, scale_log2);
    mtk_products_wait<0>();
    mtk_results_fence(r.out);
    mtk_leave(&b.values_empty[before.stage()]);
    rescale(r, shrink);
    pack(weight, score);
}

/* Multiplies the weights of the first tile of keys, which comes last. */
template <int WIDTH>
__device__ __forceinline__ void take_last(shared_memory<WIDTH> &shared, results<WIDTH> &r,
                                          const uint32_t (&weight)[KEYS / 16][4], const use &at)
{
    mtk_barrier_wait(&shared.barrier.values_full[at.stage()], at.phase());
    results_begin<WIDTH>(r.out, weight, mtk_shared_address(shared.values[at.stage()]));
    mtk_products_wait<0>();
    mtk_results_fence(r.out);
    mtk_leave(&shared.barrier.values_empty[at.stage()]);
}

/* Processes a group's 64 queries in each part. */
template <int WIDTH>
__device__ __forceinline__ void consume(shared_memory<WIDTH> &shared, const forward_call &call, int group)
{
    using S = shape<WIDTH>;
    const consumer c = {group, group * MTK_GROUP_ROWS + (int)threadIdx.x / 32 % 4 * 16,
                        mtk_shared_address(shared.queries) + (uint32_t)(group * MTK_GROUP_ROWS) * MTK_CHUNK_ROW};
    float scale_log2 = call.call.scale * MTK_LOG2_E;
    uint32_t weight[KEYS / 16][4], round = 0;
    results<WIDTH> r;
    use at = {0};
    if (group == S::GROUPS - 1)
        pass_products<S::GROUPS>(group);
    for (int n = (int)blockIdx.x; n < call.parts; n += (int)gridDim.x, round++) {
        mtk_part part = part_of(call, n);
        int row = part.tile * S::QUERIES + c.own, tile = last_of<WIDTH>(call, part);
        mtk_barrier_wait(&shared.barrier.queries_full, round & 1);
        take_first(shared, c, r, weight, at, tile * KEYS - row, scale_log2);
        for (tile--, at.n++; tile >= 0; tile--, at.n++)
            take_tile(shared, c, r, weight, at, tile * KEYS - row, scale_log2);
        mtk_leave(&shared.barrier.queries_empty);
        take_last(shared, r, weight, {at.n - 1});
        finish(r, shared, call.call, part, row, c.own);
    }
    if (group == 0) /* takes the last turn, so that no barrier remains half full */
        await_products(group);
}

/* out and lse. A block has QUERIES queries of one head at a time, a warpgroup 64 of them. Every row of out and, if
 * requested, of lse is written. */
template <int WIDTH>
__global__ void __launch_bounds__(shape<WIDTH>::THREADS, 1) attention_hopper(const __grid_constant__ forward_call call)
{
    using S = shape<WIDTH>;
    extern __shared__ __align__(1024) char memory[];
    shared_memory<WIDTH> &shared = *reinterpret_cast<shared_memory<WIDTH> *>(memory);
    if (threadIdx.x == 0) {
        barriers &b = shared.barrier;
        constexpr uint32_t WARPS = 4 * S::GROUPS;
        mtk_barrier_create(&b.queries_full, 1);
        mtk_barrier_create(&b.queries_empty, WARPS);
        for (int s = 0; s < STAGES; s++) {
            mtk_barrier_create(&b.keys_full[s], 1);
            mtk_barrier_create(&b.values_full[s], 1);
            mtk_barrier_create(&b.keys_empty[s], WARPS);
            mtk_barrier_create(&b.values_empty[s], WARPS);
        }
        mtk_barriers_publish();
    }
    __syncthreads();
    mtk_await_turn();
    int group = __shfl_sync(~0u, (int)threadIdx.x / MTK_WARPGROUP, 0);
    if (group == 0) {
        mtk_registers_give<S::PRODUCER_REGISTERS>();
        if (threadIdx.x == 0)
            produce<WIDTH>(shared, call);
    } else {
        mtk_registers_take<S::CONSUMER_REGISTERS>();
        consume<WIDTH>(shared, call, group - 1);
    }
}

/* Returns the number of blocks of a launch. Many short parts are distributed over the resident blocks, so that a block
 * loads the next part's tiles while it finishes one. A few long parts have one block each, scheduled by the card. */
unsigned blocks_of(const forward_call &call)
{
    constexpr int MOST_SHORT = 2048;
    int ordinal = 0, processors = 0;
    if (call.call.length > MOST_SHORT || cudaGetDevice(&ordinal) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, ordinal) != cudaSuccess)
        return (unsigned)call.parts;
    return (unsigned)(processors < call.parts ? processors : call.parts);
}

template <int WIDTH>
mt_status launch(forward_call &call, const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v,
                 struct mtk_queue *queue)
{
    using S = shape<WIDTH>;
    mt_status status = mtk_hopper_map(&call.q, q, S::QUERIES);
    if (status == MT_OK)
        status = mtk_hopper_map(&call.k, k, KEYS);
    if (status == MT_OK)
        status = mtk_hopper_map(&call.v, v, KEYS);
    if (status != MT_OK)
        return status;
    call.tiles = (int)mtk_ceiling(call.call.length, S::QUERIES);
    call.parts = call.tiles * call.call.total;
    call.section = mtk_section_of(call.call, 2 * call.call.features * sizeof(mtk_bf16), 1);
    return mtk_launch_shared("attention", attention_hopper<WIDTH>, blocks_of(call), S::THREADS,
                             sizeof(shared_memory<WIDTH>), queue, call);
}

} // namespace

mt_status mtk_hopper_attention(const mtk_flash<mtk_bf16> &call, const struct mtk_view *q, const struct mtk_view *k,
                               const struct mtk_view *v, struct mtk_queue *queue)
{
    forward_call launched = {};
    launched.call = call;
    switch (mtk_hopper_width(call.features)) {
    case 64:
        return launch<64>(launched, q, k, v, queue);
    case 80:
        return launch<80>(launched, q, k, v, queue);
    default:
        return launch<128>(launched, q, k, v, queue);
    }
}
