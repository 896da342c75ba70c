/* The products around SwiGLU in bf16 on Hopper, each with the gate computed from its sums while they are on the chip:
 *
 *   forward    a | b = x w1ᵀ | x w3ᵀ     gated = silu(a) * b
 *   backward   g = grad w2               a | b, replaced by their gradients     gated, again
 *
 * A pair of blocks (a cluster) has two tiles of 128 rows, one below the other, with the same 256 columns of the
 * product; in forward these are 128 columns of a and the same of b. One warp of each block, the producer, loads 64
 * elements of the summed dimension at a time through the copy engine: the block's own rows of the left operand, and
 * half of the right operand, which goes to both blocks. Two warpgroups, the consumers, have 64 rows each. Afterwards
 * each warp writes its 16 rows through its own shared memory, 64 columns (a strip) at a time, so that the copy engine
 * reads and writes whole cache lines. In backward the first strips of a and b are loaded while the product is computed.
 *
 * Blocks are persistent and process pairs of tiles in turn. Elements outside an operand are 0, and are not written.
 * Nothing is added to. Sums are fp32, in a fixed order. */
#include "kernels/cuda/hopper.cuh"

namespace
{

constexpr int ROWS = 128, COLUMNS = 256, DEPTH = MTK_CHUNK, CLUSTER = 2, GROUPS = 2, WARPS = 4 * GROUPS;
constexpr int THREADS = MTK_WARPGROUP * (GROUPS + 1), PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
constexpr int STRIP_ROWS = 16, STRIPS = COLUMNS / MTK_CHUNK;
constexpr int BAND = 8; /* pairs of tiles of rows that are processed together, so that operands stay in the cache */
constexpr uint32_t LEFT_BYTES = ROWS * MTK_CHUNK_ROW, RIGHT_BYTES = COLUMNS * MTK_CHUNK_ROW;
constexpr uint32_t STRIP_BYTES = STRIP_ROWS * MTK_CHUNK_ROW;

enum way { FORWARD, BACKWARD };

/* A launch. `right` are w1 and w3, or w2 twice. */
struct gate_call {
    mtk_tensor_map left, right[2], a, b, gated;
    int depth_tiles, column_tiles, row_pairs;
    bool wants_gated;
};

struct forward_strips {
    char out[2][STRIP_BYTES];
};

struct backward_strips {
    char gates[2][2][STRIP_BYTES]; /* a and b, two strips of each */
    char out[STRIP_BYTES];
};

template <way WAY> struct shape {
    static constexpr int STAGES = 4;
    using strips = forward_strips;
};

template <> struct shape<BACKWARD> {
    static constexpr int STAGES = 3;
    using strips = backward_strips;
};

template <way WAY> struct shared_memory {
    alignas(MTK_TILE_ALIGN) char left[shape<WAY>::STAGES][LEFT_BYTES];
    alignas(MTK_TILE_ALIGN) char right[shape<WAY>::STAGES][RIGHT_BYTES];
    alignas(MTK_TILE_ALIGN) typename shape<WAY>::strips strips[WARPS];
    uint64_t full[shape<WAY>::STAGES], empty[shape<WAY>::STAGES], gates_full[WARPS][2];
};

/* Return the two halves of a word. */
__device__ __forceinline__ float low_of(uint32_t two)
{
    return __uint_as_float(two << 16);
}

__device__ __forceinline__ float high_of(uint32_t two)
{
    return __uint_as_float(two & 0xFFFF0000u);
}

/* Returns 1 / (1 + e^-x), within some units in the last place of fp32. */
__device__ __forceinline__ float sigmoid(float x)
{
    return __fdividef(1, 1 + mtk_exp2(-MTK_LOG2_E * x));
}

/* Returns silu(a) * b. */
__device__ __forceinline__ float gate(float a, float b)
{
    return a * sigmoid(a) * b;
}

struct gate_results {
    float a, b, gated;
};

/* With s = 1 / (1 + e^-a): a = grad b s (1 + a (1 - s)), b = grad a s, gated = a s b. */
__device__ __forceinline__ gate_results gate_grad(float a, float b, float grad)
{
    float s = sigmoid(a), silu = a * s;
    return {grad * b * (s + silu * (1 - s)), grad * silu, silu * b};
}

/* The position of a block's tile: its first row, and its first column of the gate. */
struct place {
    int row, column;
};

template <way WAY> __device__ __forceinline__ place place_of(const gate_call &call, int pair)
{
    constexpr int GATES = WAY == FORWARD ? COLUMNS / 2 : COLUMNS;
    int band = pair / (BAND * call.column_tiles), rest = pair % (BAND * call.column_tiles);
    int height = min(BAND, call.row_pairs - band * BAND);
    int row_pair = band * BAND + rest % height;
    return {(row_pair * CLUSTER + (int)mtk_cluster_rank()) * ROWS, rest / height * GATES};
}

/* Loads this block's half of the right operand to both blocks through the copy engine. */
template <way WAY>
__device__ __forceinline__ void load_right(shared_memory<WAY> &shared, const gate_call &call, int stage, int column,
                                           int depth)
{
    constexpr uint16_t BOTH = 3;
    uint32_t rank = mtk_cluster_rank(), to = mtk_shared_address(shared.right[stage]) + rank * (RIGHT_BYTES / 2);
    if constexpr (WAY == FORWARD)
        mtk_tensor_copy_to(BOTH, to, &call.right[rank], &shared.full[stage], depth, column);
    else
#pragma unroll
        for (int i = 0; i < 2; i++)
            mtk_tensor_copy_to(BOTH, to + (uint32_t)i * (RIGHT_BYTES / 4), &call.right[rank], &shared.full[stage],
                               column + ((int)rank * 2 + i) * MTK_CHUNK, depth);
}

template <way WAY> __device__ __forceinline__ void produce(shared_memory<WAY> &shared, const gate_call &call)
{
    mtk_use<shape<WAY>::STAGES> at = {0};
    int pairs = call.row_pairs * call.column_tiles;
    for (int pair = (int)blockIdx.x / CLUSTER; pair < pairs; pair += (int)gridDim.x / CLUSTER) {
        place tile = place_of<WAY>(call, pair);
        for (int k = 0; k < call.depth_tiles; k++, at.n++) {
            int s = at.stage();
            mtk_barrier_wait(&shared.empty[s], at.phase() ^ 1);
            mtk_barrier_expect(&shared.full[s], LEFT_BYTES + RIGHT_BYTES);
            mtk_tensor_copy(mtk_shared_address(shared.left[s]), &call.left, &shared.full[s], k * DEPTH, tile.row, 0, 0);
            load_right(shared, call, s, tile.column, k * DEPTH);
        }
    }
}

/* A consumer warp's state: its rows in the tile, its strips, and how many strips of gates it has started to load and
 * has used. */
struct warp_place {
    int own, warp;
    uint32_t loaded, used;
};

/* Signals in both blocks that the warp no longer reads a stage. */
__device__ __forceinline__ void leave_both(uint64_t *empty)
{
    uint32_t lane = threadIdx.x % 32;
    if (lane < CLUSTER)
        mtk_barrier_arrive_in(lane, empty);
}

/* Starts sum += left right for one stage, or sum = left right unless `adds`. */
template <way WAY>
__device__ __forceinline__ void products_begin(float (&sum)[COLUMNS / 2], uint32_t left, uint32_t right, bool adds)
{
    mtk_products_begin();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        uint64_t a = mtk_operand<ROWS>(left + (uint32_t)k * 32);
        if (WAY == FORWARD)
            mtk_product<0, 0>(sum, a, mtk_operand<COLUMNS>(right + (uint32_t)k * 32), k > 0 || adds);
        else
            mtk_product<0, 1>(sum, a, mtk_operand<DEPTH>(right + (uint32_t)(16 * k) * MTK_CHUNK_ROW), k > 0 || adds);
    }
    mtk_products_commit();
}

/* Starts to load a strip of a and of b. Nothing may still read the strip's memory. */
__device__ __forceinline__ void load_gates(shared_memory<BACKWARD> &shared, const gate_call &call, warp_place &w,
                                           const place &tile, int strip)
{
    uint32_t n = w.loaded++ % 2;
    if (!mtk_is_elected())
        return;
    uint64_t *full = &shared.gates_full[w.warp][n];
    int row = tile.row + w.own, column = tile.column + strip * MTK_CHUNK;
    mtk_barrier_expect(full, 2 * STRIP_BYTES);
    mtk_tensor_copy(mtk_shared_address(shared.strips[w.warp].gates[n][0]), &call.a, full, column, row, 0, 0);
    mtk_tensor_copy(mtk_shared_address(shared.strips[w.warp].gates[n][1]), &call.b, full, column, row, 0, 0);
}

/* Computes the products of a tile. */
template <way WAY>
__device__ __forceinline__ void multiply(shared_memory<WAY> &shared, const gate_call &call, warp_place &w,
                                         const place &tile, mtk_use<shape<WAY>::STAGES> &at, float (&sum)[COLUMNS / 2])
{
    uint32_t group = (uint32_t)(w.warp / 4) * MTK_GROUP_ROWS * MTK_CHUNK_ROW;
    mtk_results_fence(sum);
    for (int k = 0; k < call.depth_tiles; k++, at.n++) {
        int s = at.stage();
        mtk_barrier_wait(&shared.full[s], at.phase());
        products_begin<WAY>(sum, mtk_shared_address(shared.left[s]) + group, mtk_shared_address(shared.right[s]),
                            k > 0);
        if (k > 0) {
            mtk_products_wait<1>();
            leave_both(&shared.empty[mtk_use<shape<WAY>::STAGES>{at.n - 1}.stage()]);
        }
        if constexpr (WAY == BACKWARD)
            if (k == call.depth_tiles / 4) { /* after the last tile's strips were written */
                mtk_writes_wait_read();
                load_gates(shared, call, w, tile, 0);
                load_gates(shared, call, w, tile, 1);
            }
    }
    mtk_products_wait<0>();
    mtk_results_fence(sum);
    leave_both(&shared.empty[mtk_use<shape<WAY>::STAGES>{at.n - 1}.stage()]);
}

/* Returns the address of the lane's row in pieces 2 k and 2 k + 1 of a strip, for four 8 x 8 pieces at once. */
__device__ __forceinline__ uint32_t lane_address(const char *strip, int k)
{
    int lane = (int)threadIdx.x % 32;
    return mtk_piece_address(mtk_shared_address(strip), lane % 16, 2 * k + lane / 16);
}

/* Fills the next of the warp's two strips after its contents were read, and starts to write it. */
__device__ __forceinline__ void put_strip(shared_memory<FORWARD> &shared, warp_place &w, const mtk_tensor_map *map,
                                          const uint32_t (&words)[4][4], int row, int column)
{
    char *strip = shared.strips[w.warp].out[w.used++ % 2];
    mtk_writes_wait_read<1>();
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 4; k++)
        mtk_pieces_store(lane_address(strip, k), words[k][0], words[k][1], words[k][2], words[k][3]);
    mtk_shared_publish();
    __syncwarp();
    if (!mtk_is_elected())
        return;
    mtk_tensor_write(map, mtk_shared_address(strip), column, row);
    mtk_writes_commit();
}

/* Writes a, b and, if requested, gated of a tile. Columns of a are the first half of the sums, of b the second half. */
__device__ __forceinline__ void finish(shared_memory<FORWARD> &shared, const gate_call &call, warp_place &w,
                                       const place &tile, const float (&sum)[COLUMNS / 2])
{
    int row = tile.row + w.own;
#pragma unroll
    for (int strip = 0; strip < STRIPS / 2; strip++) {
        int column = tile.column + strip * MTK_CHUNK;
        uint32_t a[4][4], b[4][4], gated[4][4];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const float *of_a = &sum[strip * 32 + 2 * i], *of_b = of_a + COLUMNS / 4;
            uint32_t two_a = mtk_pack(of_a[0], of_a[1]), two_b = mtk_pack(of_b[0], of_b[1]);
            a[i / 4][i % 4] = two_a;
            b[i / 4][i % 4] = two_b;
            gated[i / 4][i % 4] = mtk_pack(gate(low_of(two_a), low_of(two_b)), gate(high_of(two_a), high_of(two_b)));
        }
        put_strip(shared, w, &call.a, a, row, column);
        put_strip(shared, w, &call.b, b, row, column);
        if (call.wants_gated)
            put_strip(shared, w, &call.gated, gated, row, column);
    }
}

/* Replaces a and b of a strip by their gradients, and writes gated. */
__device__ __forceinline__ void finish_strip(backward_strips &strips, uint32_t n, const float *sum)
{
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t at_a = lane_address(strips.gates[n][0], k), at_b = lane_address(strips.gates[n][1], k);
        uint32_t a[4], b[4], gated[4];
        mtk_pieces_load(at_a, a);
        mtk_pieces_load(at_b, b);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            gate_results low = gate_grad(low_of(a[i]), low_of(b[i]), sum[8 * k + 2 * i]);
            gate_results high = gate_grad(high_of(a[i]), high_of(b[i]), sum[8 * k + 2 * i + 1]);
            a[i] = mtk_pack(low.a, high.a);
            b[i] = mtk_pack(low.b, high.b);
            gated[i] = mtk_pack(low.gated, high.gated);
        }
        mtk_pieces_store(at_a, a[0], a[1], a[2], a[3]);
        mtk_pieces_store(at_b, b[0], b[1], b[2], b[3]);
        mtk_pieces_store(lane_address(strips.out, k), gated[0], gated[1], gated[2], gated[3]);
    }
}

/* Writes the gradients of a and b, and gated. The sums are the gradient of gated. */
__device__ __forceinline__ void finish(shared_memory<BACKWARD> &shared, const gate_call &call, warp_place &w,
                                       const place &tile, const float (&sum)[COLUMNS / 2])
{
    backward_strips &strips = shared.strips[w.warp];
    int row = tile.row + w.own;
#pragma unroll
    for (int strip = 0; strip < STRIPS; strip++) {
        uint32_t n = w.used % 2;
        mtk_writes_wait_read();
        __syncwarp();
        if (strip > 0 && strip < STRIPS - 1)
            load_gates(shared, call, w, tile, strip + 1);
        mtk_barrier_wait(&shared.gates_full[w.warp][n], w.used++ / 2 & 1);
        finish_strip(strips, n, &sum[strip * 32]);
        mtk_shared_publish();
        __syncwarp();
        if (!mtk_is_elected())
            continue;
        int column = tile.column + strip * MTK_CHUNK;
        mtk_tensor_write(&call.a, mtk_shared_address(strips.gates[n][0]), column, row);
        mtk_tensor_write(&call.b, mtk_shared_address(strips.gates[n][1]), column, row);
        mtk_tensor_write(&call.gated, mtk_shared_address(strips.out), column, row);
        mtk_writes_commit();
    }
}

template <way WAY> __device__ __forceinline__ void consume(shared_memory<WAY> &shared, const gate_call &call)
{
    int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0) - 4;
    warp_place w = {warp * STRIP_ROWS, warp, 0, 0};
    mtk_use<shape<WAY>::STAGES> at = {0};
    float sum[COLUMNS / 2];
    int pairs = call.row_pairs * call.column_tiles;
    for (int pair = (int)blockIdx.x / CLUSTER; pair < pairs; pair += (int)gridDim.x / CLUSTER) {
        place tile = place_of<WAY>(call, pair);
        multiply(shared, call, w, tile, at, sum);
        finish(shared, call, w, tile, sum);
    }
    mtk_writes_wait();
}

/* A pair of blocks processes every (gridDim / 2)-th pair of tiles. Every element of a, b and gated is written. */
template <way WAY>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    gate_hopper(const __grid_constant__ gate_call call)
{
    extern __shared__ __align__(1024) char memory[];
    shared_memory<WAY> &shared = *reinterpret_cast<shared_memory<WAY> *>(memory);
    if (threadIdx.x == 0) {
        for (int s = 0; s < shape<WAY>::STAGES; s++) {
            mtk_barrier_create(&shared.full[s], 1);
            mtk_barrier_create(&shared.empty[s], CLUSTER * WARPS);
        }
        for (int w = 0; w < WARPS; w++)
            for (int n = 0; n < 2; n++)
                mtk_barrier_create(&shared.gates_full[w][n], 1);
        mtk_barriers_publish();
    }
    mtk_cluster_wait();
    mtk_await_turn();
    int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    if (warp < 4) {
        mtk_registers_give<PRODUCER_REGISTERS>();
        if (warp == 0 && mtk_is_elected())
            produce<WAY>(shared, call);
        __syncwarp();
    } else {
        mtk_registers_take<CONSUMER_REGISTERS>();
        consume<WAY>(shared, call);
    }
    mtk_cluster_wait(); /* the other block's copies and arrivals also arrive here */
}

/* Returns the number of blocks of a launch: resident pairs, but no more than there are pairs of tiles. */
unsigned blocks_of(const gate_call &call)
{
    int ordinal = 0, processors = 0, pairs = call.row_pairs * call.column_tiles;
    if (cudaGetDevice(&ordinal) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, ordinal) != cudaSuccess)
        return (unsigned)(pairs * CLUSTER);
    int most = processors / CLUSTER;
    return (unsigned)((pairs < most ? pairs : most) * CLUSTER);
}

/* Returns rows of `columns` elements, `apart` elements apart, as a view for maps of the copy engine. */
struct mtk_view matrix_of(mt_addr address, int64_t rows, int64_t columns, int64_t apart)
{
    return {address, MT_BF16, {1, 1, rows, columns}, {rows * apart, rows * apart, apart, 1}};
}

int64_t rows_of(const struct mtk_view *view)
{
    return view->shape[0] * view->shape[1] * view->shape[2];
}

/* Describes both operands of the gate, side by side in `in`, its output, and the left operand of the product. */
mt_status describe(gate_call *call, const struct mtk_view *in, const struct mtk_view *out, const struct mtk_view *left)
{
    int64_t rows = rows_of(in), F = in->shape[3] / 2, C = left->shape[3];
    struct mtk_view a = matrix_of(in->address, rows, F, 2 * F), b = a;
    b.address += (mt_addr)(F * (int64_t)sizeof(mtk_bf16));
    struct mtk_view gated = matrix_of(out->address, rows, F, F), x = matrix_of(left->address, rows, C, C);
    call->wants_gated = out->address != 0;
    call->depth_tiles = (int)mtk_ceiling(C, DEPTH);
    call->row_pairs = (int)mtk_ceiling(rows, ROWS * CLUSTER);
    mt_status status = mtk_hopper_map(&call->a, &a, STRIP_ROWS);
    if (status == MT_OK)
        status = mtk_hopper_map(&call->b, &b, STRIP_ROWS);
    if (status == MT_OK && call->wants_gated)
        status = mtk_hopper_map(&call->gated, &gated, STRIP_ROWS);
    return status == MT_OK ? mtk_hopper_map(&call->left, &x, ROWS) : status;
}

template <way WAY> mt_status launch(const char *op, const gate_call &call, struct mtk_queue *queue)
{
    return mtk_launch_shared(op, gate_hopper<WAY>, blocks_of(call), THREADS, sizeof(shared_memory<WAY>), queue, call);
}

} // namespace

mt_status mtk_cuda_swiglu_product(const struct mtk_view *in, const struct mtk_view *out, const struct mtk_view *x,
                                  const struct mtk_view *weight, struct mtk_queue *queue)
{
    gate_call call = {};
    int64_t F = in->shape[3] / 2, C = x->shape[3];
    mt_status status = describe(&call, in, out, x);
    for (int i = 0; i < 2 && status == MT_OK; i++) {
        mt_addr first = weight->address + (mt_addr)(i * F * C * (int64_t)sizeof(mtk_bf16));
        struct mtk_view right = matrix_of(first, F, C, C);
        status = mtk_hopper_map(&call.right[i], &right, COLUMNS / 2);
    }
    call.column_tiles = (int)mtk_ceiling(F, COLUMNS / 2);
    return status == MT_OK ? launch<FORWARD>("swiglu_product", call, queue) : status;
}

mt_status mtk_cuda_swiglu_product_grad(const struct mtk_view *in, const struct mtk_view *out,
                                       const struct mtk_view *grad, const struct mtk_view *weight,
                                       struct mtk_queue *queue)
{
    gate_call call = {};
    int64_t F = out->shape[3], C = grad->shape[3];
    struct mtk_view right = matrix_of(weight->address, C, F, F);
    mt_status status = describe(&call, in, out, grad);
    for (int i = 0; i < 2 && status == MT_OK; i++)
        status = mtk_hopper_map(&call.right[i], &right, DEPTH);
    call.column_tiles = (int)mtk_ceiling(F, COLUMNS);
    return status == MT_OK ? launch<BACKWARD>("swiglu_product_grad", call, queue) : status;
}
