/* The gradients of causal attention in bf16 on Hopper, as in flash_backward.cu, but in one pass: five products per tile
 * instead of seven.
 *
 * A block has 128 keys of a head, a consumer warpgroup 64 of them, and streams the queries that see them, from last to
 * first. Keys are the rows of products, queries the columns, so weights and slopes are left operands as they are
 * computed. The gradients of keys and values stay in registers. The gradients of queries are summed over blocks, in
 * fp32, in memory:
 *
 *   warp 0       loads q and grad, with lse and delta, through the copy engine
 *   warps 1 …    add a tile's sums to memory through it, in turns
 *   consumers    p = e^(scale k·q - lse)         dv += p grad
 *                s = p (v·grad - delta)          dk += s q          sums of dq: s, transposed, times k
 *
 * Sums have a fixed order, so equal inputs give equal bits: blocks add to each tile of queries from the first keys to
 * the last, and a count in memory shows whose turn it is. Blocks also start in that order, those with the most work
 * first. A block waits only for blocks that started before it, so there is no deadlock.
 *
 * There are three kernels: the first fills rows of lse and delta and clears the counts, the last rounds the sums to dq.
 * Every row of dq, dk, dv and delta is written; nothing is added to. Shah et al., "FlashAttention-3", 2024. */
#include "kernels/cuda/flash_hopper.cuh"

#include <math_constants.h>

namespace
{

constexpr int QUERIES = MTK_ONE_PASS_QUERIES, GROUPS = 2, KEYS = MTK_GROUP_ROWS * GROUPS,
              CONSUMERS = GROUPS * MTK_WARPGROUP;
constexpr int THREADS = MTK_WARPGROUP + CONSUMERS;
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
constexpr int ALL_CONSUMERS = 1; /* a named barrier */
constexpr int LEAST_SECTION = 16;

/* The shape of a block for heads of WIDTH columns. A group computes its own columns of a tile of dq: PART, or the
 * rest. */
template <int WIDTH> struct shape {
    static constexpr int SUMS = QUERIES * WIDTH; /* of a tile of dq */
    static constexpr int PART = WIDTH <= MTK_CHUNK ? WIDTH / 2 : MTK_CHUNK;
    static constexpr int STAGES = WIDTH <= 64 ? 3 : 2, ADDERS = WIDTH <= 80 ? 3 : 2; /* limited by shared memory */
    static constexpr uint32_t KEY_BYTES = mtk_tile_bytes(KEYS, WIDTH), QUERY_BYTES = mtk_tile_bytes(QUERIES, WIDTH);
    static constexpr uint32_t ROW_BYTES = 2 * QUERIES * sizeof(float); /* of lse and delta */
};

/* A launch. For each tile of queries, `rows` has lse times log2(e), and delta; `sums` has dq without its factor, in the
 * order of the consumers' threads. */
struct backward_call {
    mtk_tensor_map q, k, v, grad, lse_and_delta; /* the last of `rows` */
    mtk_flash<mtk_bf16> call;
    float *rows, *sums;
    unsigned *turns; /* for each tile of queries, the number of blocks that have added to it */
    unsigned *begun; /* number of started blocks */
    int query_tiles, key_tiles, section;
};

template <int WIDTH> using use = mtk_use<shape<WIDTH>::STAGES>;

template <int WIDTH> struct barriers {
    uint64_t keys, full[shape<WIDTH>::STAGES], empty[shape<WIDTH>::STAGES];
    uint64_t sums_full[shape<WIDTH>::ADDERS], sums_empty[shape<WIDTH>::ADDERS];
};

template <int WIDTH> struct shared_memory {
    alignas(MTK_TILE_ALIGN) char keys[shape<WIDTH>::KEY_BYTES];
    alignas(MTK_TILE_ALIGN) char values[shape<WIDTH>::KEY_BYTES];
    alignas(MTK_TILE_ALIGN) char queries[shape<WIDTH>::STAGES][shape<WIDTH>::QUERY_BYTES];
    alignas(MTK_TILE_ALIGN) char grads[shape<WIDTH>::STAGES][shape<WIDTH>::QUERY_BYTES];
    alignas(MTK_TILE_ALIGN) char slopes[2][mtk_tile_bytes(KEYS, QUERIES)];
    alignas(MTK_TILE_ALIGN) float sums[shape<WIDTH>::ADDERS][shape<WIDTH>::SUMS];
    alignas(128) float rows[shape<WIDTH>::STAGES][2 * QUERIES];
    barriers<WIDTH> barrier;
    unsigned block;
};

/* A block's part of the work: a tile of keys, and `count` tiles of queries, from the last one down. */
struct block_part {
    mtk_part keys;
    int head; /* among all heads of all sequences */
    int count;
};

__device__ __forceinline__ block_part part_of(const backward_call &call, unsigned block)
{
    int n = (int)block, before = n / (call.section * call.key_tiles) * call.section;
    int heads = min(call.section, call.call.total - before), rest = n - before * call.key_tiles;
    int head = before + rest % heads, tile = rest / heads;
    return {{tile, head / call.call.heads, head % call.call.heads}, head, call.query_tiles - tile * KEYS / QUERIES};
}

/* Loads keys and values, then tiles of queries, through the copy engine. */
template <int WIDTH>
__device__ __forceinline__ void produce(shared_memory<WIDTH> &shared, const backward_call &call, const block_part &part)
{
    using S = shape<WIDTH>;
    barriers<WIDTH> &b = shared.barrier;
    mtk_barrier_expect(&b.keys, 2 * S::KEY_BYTES);
    mtk_tile_load<WIDTH, KEYS>(mtk_shared_address(shared.keys), &call.k, &b.keys, part.keys.tile * KEYS, part.keys);
    mtk_tile_load<WIDTH, KEYS>(mtk_shared_address(shared.values), &call.v, &b.keys, part.keys.tile * KEYS, part.keys);
    for (use<WIDTH> at = {0}; at.n < part.count; at.n++) {
        int s = at.stage(), tile = call.query_tiles - 1 - at.n;
        mtk_barrier_wait(&b.empty[s], at.phase() ^ 1);
        mtk_barrier_expect(&b.full[s], 2 * S::QUERY_BYTES + S::ROW_BYTES);
        mtk_tensor_copy(mtk_shared_address(shared.rows[s]), &call.lse_and_delta, &b.full[s], 0,
                        part.head * call.query_tiles + tile, 0, 0);
        mtk_tile_load<WIDTH, QUERIES>(mtk_shared_address(shared.queries[s]), &call.q, &b.full[s], tile * QUERIES,
                                      part.keys);
        mtk_tile_load<WIDTH, QUERIES>(mtk_shared_address(shared.grads[s]), &call.grad, &b.full[s], tile * QUERIES,
                                      part.keys);
    }
}

__device__ __forceinline__ unsigned read_turn(const unsigned *turn)
{
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(turn) : "memory");
    return value;
}

__device__ __forceinline__ void write_turn(unsigned *turn, unsigned value)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(value) : "memory");
}

/* Adds the sums of every ADDERS-th tile to memory when it is the block's turn; the first block writes them. */
template <int WIDTH>
__device__ __forceinline__ void add_sums(shared_memory<WIDTH> &shared, const backward_call &call,
                                         const block_part &part, int adder)
{
    using S = shape<WIDTH>;
    barriers<WIDTH> &b = shared.barrier;
    uint32_t from = mtk_shared_address(shared.sums[adder]), bytes = S::SUMS * (uint32_t)sizeof(float), phase = 0;
    for (int use = adder; use < part.count; use += S::ADDERS, phase ^= 1) {
        int64_t n = (int64_t)part.head * call.query_tiles + call.query_tiles - 1 - use;
        unsigned turn = (unsigned)part.keys.tile;
        while (read_turn(&call.turns[n]) != turn)
            continue;
        mtk_global_publish();
        mtk_barrier_wait(&b.sums_full[adder], phase);
        if (turn == 0)
            mtk_floats_write(call.sums + n * S::SUMS, from, bytes);
        else
            mtk_floats_add(call.sums + n * S::SUMS, from, bytes);
        mtk_writes_commit();
        mtk_writes_wait_read();
        mtk_barrier_arrive(&b.sums_empty[adder]);
        mtk_writes_wait();
        write_turn(&call.turns[n], turn + 1);
    }
}

/* sum = left right over the WIDTH columns, for the 64 rows of a group at `left`. */
template <int WIDTH>
__device__ __forceinline__ void rows_begin(float (&sum)[QUERIES / 2], uint32_t left, uint32_t right)
{
    mtk_results_fence(sum);
    mtk_products_begin();
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        uint32_t column = (uint32_t)(k % 4 * 32);
        mtk_product<0, 0>(sum, mtk_operand<KEYS>(left + (uint32_t)(k / 4 * KEYS) * MTK_CHUNK_ROW + column),
                          mtk_operand<QUERIES>(right + (uint32_t)(k / 4 * QUERIES) * MTK_CHUNK_ROW + column), k > 0);
    }
    mtk_products_commit();
}

/* sum += left right over the queries of a tile. */
template <int WIDTH>
__device__ __forceinline__ void columns_begin(float (&sum)[WIDTH / 2], const uint32_t (&left)[QUERIES / 16][4],
                                              uint32_t right)
{
    mtk_results_fence(sum);
    mtk_products_begin();
#pragma unroll
    for (int k = 0; k < QUERIES / 16; k++)
        mtk_product<1>(sum, left[k], mtk_operand<QUERIES>(right + (uint32_t)(16 * k) * MTK_CHUNK_ROW), 1);
    mtk_products_commit();
}

/* sum = a group's part of a tile of dq: slopes, transposed, times keys. */
template <int COUNT> __device__ __forceinline__ void sums_begin(float (&sum)[COUNT], uint32_t slopes, uint32_t keys)
{
    mtk_results_fence(sum);
    mtk_products_begin();
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
        uint32_t row = (uint32_t)(16 * k) * MTK_CHUNK_ROW;
        mtk_product<1, 1>(sum, mtk_operand<KEYS>(slopes + row), mtk_operand<KEYS>(keys + row), k > 0);
    }
    mtk_products_commit();
}

/* Sets a score to -inf if its key comes after its query: `ahead` is the thread's first key minus the tile's first
 * query. */
template <int COUNT> __device__ __forceinline__ void mask(float (&score)[COUNT], int ahead)
{
    int column = (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (ahead + i / 2 % 2 * 8 > i / 4 * 8 + column + i % 2)
            score[i] = -CUDART_INF_F;
}

/* Converts scores to weights with the queries' lse. */
template <int COUNT> __device__ __forceinline__ void weigh(float (&score)[COUNT], const float *lse, float scale_log2)
{
#pragma unroll
    for (int n = 0; n < COUNT / 4; n++) {
        float2 two = *reinterpret_cast<const float2 *>(lse + 8 * n + (int)threadIdx.x % 4 * 2);
#pragma unroll
        for (int e = 0; e < 4; e++)
            score[4 * n + e] = mtk_exp2(score[4 * n + e] * scale_log2 - (e % 2 == 0 ? two.x : two.y));
    }
}

/* Converts the products of values with gradients to s / scale. */
template <int COUNT>
__device__ __forceinline__ void differentiate(float (&slope)[COUNT], const float (&weight)[COUNT], const float *delta)
{
#pragma unroll
    for (int n = 0; n < COUNT / 4; n++) {
        float2 two = *reinterpret_cast<const float2 *>(delta + 8 * n + (int)threadIdx.x % 4 * 2);
#pragma unroll
        for (int e = 0; e < 4; e++)
            slope[4 * n + e] = weight[4 * n + e] * (slope[4 * n + e] - (e % 2 == 0 ? two.x : two.y));
    }
}

template <int PIECES, int COUNT>
__device__ __forceinline__ void pack(uint32_t (&left)[PIECES][4], const float (&sum)[COUNT])
{
#pragma unroll
    for (int k = 0; k < PIECES; k++)
        mtk_left_pack(left[k], sum, k);
}

/* Writes a warp's 16 rows of slopes, from `own` on, to the tile for the product of dq. */
template <int PIECES>
__device__ __forceinline__ void slopes_store(uint32_t tile, int own, const uint32_t (&left)[PIECES][4])
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
        int piece = 2 * k + lane / 16;
        mtk_pieces_store(
            mtk_piece_address(tile + (uint32_t)(piece / 8 * KEYS) * MTK_CHUNK_ROW, own + lane % 16, piece % 8),
            left[k][0], left[k][1], left[k][2], left[k][3]);
    }
}

/* Passes a group's part of a tile of dq to the warp that adds it. */
template <int WIDTH, int COUNT>
__device__ __forceinline__ void sums_hand(shared_memory<WIDTH> &shared, const float (&sum)[COUNT], int group, int use)
{
    using S = shape<WIDTH>;
    int adder = use % S::ADDERS;
    float4 *to = reinterpret_cast<float4 *>(shared.sums[adder] + group * QUERIES * S::PART);
    mtk_barrier_wait(&shared.barrier.sums_empty[adder], ((uint32_t)(use / S::ADDERS) & 1) ^ 1);
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++)
        to[i * MTK_WARPGROUP + (int)threadIdx.x % MTK_WARPGROUP] =
            make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
    mtk_shared_publish();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        mtk_barrier_arrive(&shared.barrier.sums_full[adder]);
}

/* A consumer group: its position, and its results so far. */
template <int WIDTH> struct consumer {
    int group, own;     /* its number; the warp's first key in the block */
    uint32_t group_row; /* the group's first row in a chunk, in bytes */
    float dk[WIDTH / 2], dv[WIDTH / 2];
};

/* Uses a tile's slopes: starts the group's COUNT results of dq and dk += s q, and passes on the former. */
template <int WIDTH, int COUNT>
__device__ __forceinline__ void slopes_multiply(shared_memory<WIDTH> &shared, consumer<WIDTH> &c,
                                                const uint32_t (&slopes)[QUERIES / 16][4], const use<WIDTH> &at)
{
    using S = shape<WIDTH>;
    uint32_t columns = (uint32_t)c.group * (S::PART == MTK_CHUNK ? KEYS * MTK_CHUNK_ROW : S::PART * 2);
    float sum[COUNT];
    sums_begin(sum, mtk_shared_address(shared.slopes[at.n % 2]), mtk_shared_address(shared.keys) + columns);
    columns_begin<WIDTH>(c.dk, slopes, mtk_shared_address(shared.queries[at.stage()]));
    mtk_products_wait<1>();
    mtk_results_fence(c.dv);
    mtk_results_fence(sum);
    sums_hand(shared, sum, c.group, at.n);
    mtk_products_wait<0>();
    mtk_results_fence(c.dk);
}

/* Processes a tile of queries with a group's keys. */
template <int WIDTH, int COUNT>
__device__ __forceinline__ void take_tile(shared_memory<WIDTH> &shared, consumer<WIDTH> &c, const backward_call &call,
                                          const block_part &part, const use<WIDTH> &at)
{
    int s = at.stage(), ahead = part.keys.tile * KEYS + c.own - (call.query_tiles - 1 - at.n) * QUERIES;
    uint32_t grads = mtk_shared_address(shared.grads[s]);
    float score[QUERIES / 2], slope[QUERIES / 2];
    uint32_t weights[QUERIES / 16][4], slopes[QUERIES / 16][4];
    mtk_barrier_wait(&shared.barrier.full[s], at.phase());
    rows_begin<WIDTH>(score, mtk_shared_address(shared.keys) + c.group_row, mtk_shared_address(shared.queries[s]));
    rows_begin<WIDTH>(slope, mtk_shared_address(shared.values) + c.group_row, grads);
    mtk_products_wait<1>();
    mtk_results_fence(score);
    if (ahead + 15 > 0)
        mask(score, ahead + (int)threadIdx.x % 32 / 4);
    weigh(score, shared.rows[s], call.call.scale * MTK_LOG2_E);
    pack(weights, score);
    columns_begin<WIDTH>(c.dv, weights, grads);
    mtk_products_wait<1>();
    mtk_results_fence(slope);
    differentiate(slope, score, shared.rows[s] + QUERIES);
    pack(slopes, slope);
    slopes_store(mtk_shared_address(shared.slopes[at.n % 2]), c.own, slopes);
    mtk_shared_publish();
    mtk_named_wait(ALL_CONSUMERS, CONSUMERS); /* all slopes are stored, and no one still uses the previous ones */
    slopes_multiply<WIDTH, COUNT>(shared, c, slopes, at);
    mtk_leave(&shared.barrier.empty[s]);
}

/* Computes the gradients of a group's 64 keys, and its part of the queries' gradients, with COUNT results per
 * thread. */
template <int WIDTH, int COUNT>
__device__ __forceinline__ void consume(shared_memory<WIDTH> &shared, const backward_call &call, const block_part &part,
                                        int group)
{
    const mtk_flash<mtk_bf16> &flash = call.call;
    consumer<WIDTH> c;
    c.group = group;
    c.own = group * MTK_GROUP_ROWS + (int)threadIdx.x / 32 % 4 * 16;
    c.group_row = (uint32_t)(group * MTK_GROUP_ROWS) * MTK_CHUNK_ROW;
#pragma unroll
    for (int i = 0; i < WIDTH / 2; i++)
        c.dk[i] = c.dv[i] = 0;
    mtk_barrier_wait(&shared.barrier.keys, 0);
    for (use<WIDTH> at = {0}; at.n < part.count; at.n++)
        take_tile<WIDTH, COUNT>(shared, c, call, part, at);
    mtk_named_wait(ALL_CONSUMERS, CONSUMERS); /* no one still uses keys or values */
    int row = part.keys.tile * KEYS + c.own;
    mtk_rows_store<WIDTH, KEYS>(mtk_shared_address(shared.keys), c.own, mtk_head_of(flash.dk, part.keys), row,
                                flash.length, flash.features, c.dk, flash.scale, flash.scale);
    mtk_rows_store<WIDTH, KEYS>(mtk_shared_address(shared.values), c.own, mtk_head_of(flash.dv, part.keys), row,
                                flash.length, flash.features, c.dv, 1, 1);
}

/* dk, dv and the sums of dq. A block has KEYS keys of one head, a consumer group 64 of them. Every row of dk and dv is
 * written, and every sum. */
template <int WIDTH>
__global__ void __launch_bounds__(THREADS, 1) gradients_hopper(const __grid_constant__ backward_call call)
{
    extern __shared__ __align__(1024) char memory[];
    shared_memory<WIDTH> &shared = *reinterpret_cast<shared_memory<WIDTH> *>(memory);
    if (threadIdx.x == 0) {
        barriers<WIDTH> &b = shared.barrier;
        mtk_barrier_create(&b.keys, 1);
        for (int i = 0; i < shape<WIDTH>::ADDERS; i++) {
            mtk_barrier_create(&b.sums_full[i], CONSUMERS / 32);
            mtk_barrier_create(&b.sums_empty[i], 1);
        }
        for (int s = 0; s < shape<WIDTH>::STAGES; s++) {
            mtk_barrier_create(&b.full[s], 1);
            mtk_barrier_create(&b.empty[s], CONSUMERS / 32);
        }
        mtk_barriers_publish();
    }
    mtk_await_turn();
    if (threadIdx.x == 0)
        shared.block = atomicAdd(call.begun, 1);
    __syncthreads();
    block_part part = part_of(call, shared.block);
    int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    if (warp < MTK_WARPGROUP / 32) {
        mtk_registers_give<PRODUCER_REGISTERS>();
        if (warp == 0 && threadIdx.x % 32 == 0)
            produce<WIDTH>(shared, call, part);
        if (warp > 0 && warp <= shape<WIDTH>::ADDERS && threadIdx.x % 32 == 0)
            add_sums<WIDTH>(shared, call, part, warp - 1);
    } else {
        mtk_registers_take<CONSUMER_REGISTERS>();
        int group = warp / 4 - 1;
        if (WIDTH == 80 && group == 1)
            consume<WIDTH, 8>(shared, call, part, group);
        else
            consume<WIDTH, shape<WIDTH>::PART / 2>(shared, call, part, group);
    }
}

constexpr int PIECE = 8, PREPARE_LANES = 8, PREPARE_THREADS = 128, PREPARE_STEP = PREPARE_THREADS / PREPARE_LANES;

__device__ __forceinline__ float product_of(uint32_t a, uint32_t b)
{
    float2 x = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&a));
    float2 y = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&b));
    return x.x * y.x + x.y * y.y;
}

/* Returns a block's tile of queries. */
__device__ __forceinline__ mtk_part queries_of(const backward_call &call)
{
    int tile = (int)blockIdx.x, head = tile / call.query_tiles;
    return {tile % call.query_tiles, head / call.call.heads, head % call.call.heads};
}

/* Adds this thread's part of grad·out to `sum`, for every PREPARE_STEP-th row from `row` on. Rows after the last get
 * its values. All rows are read before the first is used. */
template <int ROWS>
__device__ __forceinline__ void add_deltas(float (&sum)[ROWS], const mtk_flash<mtk_bf16> &call, const mtk_part &part,
                                           int row)
{
    mtk_head<mtk_bf16> grads = mtk_head_of(call.grad, part), outs = mtk_head_of(call.out, part);
    for (int d = (int)threadIdx.x % PREPARE_LANES * PIECE; d < call.features; d += PREPARE_LANES * PIECE) {
        uint4 grad[ROWS], out[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            int64_t at = min(row + i * PREPARE_STEP, call.length - 1);
            grad[i] = *reinterpret_cast<const uint4 *>(grads.base + at * grads.row + d);
            out[i] = *reinterpret_cast<const uint4 *>(outs.base + at * outs.row + d);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            sum[i] += product_of(grad[i].x, out[i].x) + product_of(grad[i].y, out[i].y) +
                      product_of(grad[i].z, out[i].z) + product_of(grad[i].w, out[i].w);
    }
}

/* Fills the rows of lse and delta, and clears the counts. A block has a tile of queries, with eight threads per row.
 * Rows after the last query get an lse of inf, so that their weights are 0. */
__global__ void __launch_bounds__(PREPARE_THREADS) prepare(const __grid_constant__ backward_call call)
{
    constexpr int ROWS = QUERIES / PREPARE_STEP;
    __shared__ float deltas[QUERIES];
    float sum[ROWS] = {};
    mtk_await_turn();
    mtk_part part = queries_of(call);
    int own = (int)threadIdx.x / PREPARE_LANES, at = (int)threadIdx.x, row = part.tile * QUERIES + at;
    add_deltas(sum, call.call, part, part.tile * QUERIES + own);
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        for (int step = 1; step < PREPARE_LANES; step *= 2)
            sum[i] += __shfl_xor_sync(~0u, sum[i], step);
        if (threadIdx.x % PREPARE_LANES == 0)
            deltas[own + i * PREPARE_STEP] = sum[i];
    }
    __syncthreads();
    if (at >= QUERIES)
        return;
    bool is_there = row < call.call.length;
    mtk_head<float> lse = mtk_head_of(call.call.lse, part), delta = mtk_head_of(call.call.delta, part);
    float *rows = call.rows + (int64_t)blockIdx.x * 2 * QUERIES;
    rows[at] = is_there ? lse.base[row * lse.row] * MTK_LOG2_E : CUDART_INF_F;
    rows[QUERIES + at] = is_there ? deltas[at] : 0;
    if (is_there)
        delta.base[row * delta.row] = deltas[at];
    if (at == 0)
        call.turns[blockIdx.x] = 0;
    if (at == 0 && blockIdx.x == 0)
        *call.begun = 0;
}

/* dq = scale times the sums. A block has a tile of queries. A thread reads its own results of the product, a warp 512
 * bytes at a time, and rows are written through shared memory. Every row is written. */
template <int WIDTH> __global__ void __launch_bounds__(MTK_WARPGROUP) finish(const __grid_constant__ backward_call call)
{
    __shared__ __align__(MTK_TILE_ALIGN) char tile[mtk_tile_bytes(QUERIES, WIDTH)];
    const mtk_flash<mtk_bf16> &flash = call.call;
    float sum[WIDTH / 2];
    mtk_await_turn();
    mtk_part part = queries_of(call);
    int own = (int)threadIdx.x / 32 * 16;
    const float4 *sums =
        reinterpret_cast<const float4 *>(call.sums + (int64_t)blockIdx.x * shape<WIDTH>::SUMS) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < WIDTH / 8; i++) {
        float4 four = sums[i * MTK_WARPGROUP];
        sum[4 * i] = four.x, sum[4 * i + 1] = four.y, sum[4 * i + 2] = four.z, sum[4 * i + 3] = four.w;
    }
    mtk_rows_store<WIDTH, QUERIES>(mtk_shared_address(tile), own, mtk_head_of(flash.dq, part),
                                   part.tile * QUERIES + own, flash.length, flash.features, sum, flash.scale,
                                   flash.scale);
}

template <int WIDTH>
mt_status launch(backward_call &call, const struct mtk_attention_grad *grad, struct mtk_queue *queue)
{
    using S = shape<WIDTH>;
    call.query_tiles = (int)mtk_ceiling(call.call.length, QUERIES);
    call.key_tiles = (int)mtk_ceiling(call.call.length, KEYS);
    call.section =
        mtk_section_of(call.call, call.call.features * (2 * sizeof(mtk_bf16) + sizeof(float)), LEAST_SECTION);
    int64_t tiles = mtk_one_pass_tiles(&grad->q);
    call.sums = reinterpret_cast<float *>(mtk_device_pointer(grad->workspace));
    call.rows = call.sums + tiles * S::SUMS;
    call.turns = reinterpret_cast<unsigned *>(call.rows + tiles * 2 * QUERIES);
    call.begun = call.turns + tiles;
    mt_status status = mtk_hopper_map(&call.q, &grad->q, QUERIES);
    if (status == MT_OK)
        status = mtk_hopper_map(&call.grad, &grad->grad, QUERIES);
    if (status == MT_OK)
        status = mtk_hopper_map(&call.k, &grad->k, KEYS);
    if (status == MT_OK)
        status = mtk_hopper_map(&call.v, &grad->v, KEYS);
    const struct mtk_view rows = {grad->workspace + (mt_addr)(tiles * S::SUMS * (int64_t)sizeof(float)),
                                  MT_F32,
                                  {1, 1, tiles, 2 * QUERIES},
                                  {tiles * 2 * QUERIES, tiles * 2 * QUERIES, 2 * QUERIES, 1}};
    if (status == MT_OK)
        status = mtk_hopper_map(&call.lse_and_delta, &rows, 1);
    if (status == MT_OK)
        status = mtk_launch("attention_grad (delta)", prepare, (unsigned)tiles, PREPARE_THREADS, queue, call);
    if (status == MT_OK)
        status =
            mtk_launch_shared("attention_grad", gradients_hopper<WIDTH>, (unsigned)(call.key_tiles * call.call.total),
                              THREADS, sizeof(shared_memory<WIDTH>), queue, call);
    if (status == MT_OK)
        status = mtk_launch("attention_grad (dq)", finish<WIDTH>, (unsigned)tiles, MTK_WARPGROUP, queue, call);
    return status;
}

} // namespace

mt_status mtk_hopper_attention_grad(const mtk_flash<mtk_bf16> &call, const struct mtk_attention_grad *grad,
                                    struct mtk_queue *queue)
{
    backward_call launched = {};
    launched.call = call;
    if (grad->workspace_bytes < mtk_attention_grad_bytes(queue->capability, &grad->q))
        return mt_fail(MT_FAILED, "attention_grad: a workspace of %llu bytes; this card takes %llu",
                       (unsigned long long)grad->workspace_bytes,
                       (unsigned long long)mtk_attention_grad_bytes(queue->capability, &grad->q));
    switch (mtk_hopper_width(call.features)) {
    case 64:
        return launch<64>(launched, grad, queue);
    case 80:
        return launch<80>(launched, grad, queue);
    default:
        return launch<128>(launched, grad, queue);
    }
}
