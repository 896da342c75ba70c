/* Tiles of bf16 in shared memory and their products on the matrix units, a warp at a time.
 *
 * A warp multiplies pieces of 16 x 16 by 16 x 8 (mma m16n8k16). Of an accumulator's piece of 16 x 8, thread 4g + t has
 * elements (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1); two pieces side by side, rounded, are a left operand's
 * piece of 16 x 16 as they stand. So what one product makes another takes from registers.
 *
 * Rows of a tile are 16 bytes longer than they have elements: then the 8 rows that are read at once (ldmatrix) lie in
 * different banks. */
#ifndef MTK_CUDA_FRAGMENTS_CUH
#define MTK_CUDA_FRAGMENTS_CUH

#include "kernels/cuda/flash.cuh"

typedef __nv_bfloat16 mtk_bf16;

__host__ __device__ constexpr int mtk_pitch(int width)
{
    return width + 8;
}

__device__ __forceinline__ unsigned mtk_shared_address(const void *pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

/* Begins to copy 16 bytes, or to clear them. */
__device__ __forceinline__ void mtk_copy_16(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(mtk_shared_address(to)), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void mtk_copy_4(void *to, const void *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(mtk_shared_address(to)), "l"(from),
                 "r"(there ? 4 : 0)
                 : "memory");
}

/* Waits for all copies that this thread began. */
__device__ __forceinline__ void mtk_copies_wait()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Begins to copy rows [first, first + ROWS) of a head into a tile; what is beyond its length or width becomes 0. */
template <int WIDTH, int ROWS, int THREADS>
__device__ __forceinline__ void mtk_tile_copy(mtk_bf16 *tile, mtk_head<mtk_bf16> head, int first, int length,
                                              int features)
{
    constexpr int PIECES = WIDTH / 8;
    for (int n = (int)threadIdx.x; n < ROWS * PIECES; n += THREADS) {
        int row = n / PIECES, column = n % PIECES * 8;
        bool there = first + row < length && column < features;
        const mtk_bf16 *from = there ? head.base + (first + row) * head.row + column : head.base;
        mtk_copy_16(tile + row * mtk_pitch(WIDTH) + column, from, there);
    }
}

__device__ __forceinline__ void mtk_read_pieces(uint32_t (&piece)[4], const mtk_bf16 *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                 : "r"(mtk_shared_address(at))
                 : "memory");
}

__device__ __forceinline__ void mtk_read_pieces_turned(uint32_t (&piece)[4], const mtk_bf16 *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                 : "r"(mtk_shared_address(at))
                 : "memory");
}

/* sum += left * right. */
__device__ __forceinline__ void mtk_multiply_add(float (&sum)[4], const uint32_t (&left)[4], uint32_t right0,
                                                 uint32_t right1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

/* 16 rows of a tile, from `row` on, as a left operand. */
template <int WIDTH>
__device__ __forceinline__ void mtk_left_read(uint32_t (&left)[WIDTH / 16][4], const mtk_bf16 *tile, int row)
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++)
        mtk_read_pieces(left[k], tile + (row + lane % 16) * mtk_pitch(WIDTH) + k * 16 + lane / 16 * 8);
}

/* sum (16 x 8 PIECES) += left (16 x WIDTH) · (8 PIECES rows of a tile)ᵀ. */
template <int WIDTH, int PIECES>
__device__ __forceinline__ void mtk_times_rows(float (&sum)[PIECES][4], const uint32_t (&left)[WIDTH / 16][4],
                                               const mtk_bf16 *tile)
{
    int lane = (int)threadIdx.x % 32;
    const mtk_bf16 *mine = tile + (lane / 16 * 8 + lane % 8) * mtk_pitch(WIDTH) + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < PIECES / 2; n++)
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++) {
            uint32_t right[4];
            mtk_read_pieces(right, mine + n * 16 * mtk_pitch(WIDTH) + k * 16);
            mtk_multiply_add(sum[2 * n], left[k], right[0], right[1]);
            mtk_multiply_add(sum[2 * n + 1], left[k], right[2], right[3]);
        }
}

/* sum (16 x WIDTH) += left (16 x 16 DEPTH) · 16 DEPTH rows of a tile. */
template <int WIDTH, int DEPTH>
__device__ __forceinline__ void mtk_times_tile(float (&sum)[WIDTH / 8][4], const uint32_t (&left)[DEPTH][4],
                                               const mtk_bf16 *tile)
{
    int lane = (int)threadIdx.x % 32;
    const mtk_bf16 *mine = tile + lane % 16 * mtk_pitch(WIDTH) + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < DEPTH; k++)
#pragma unroll
        for (int n = 0; n < WIDTH / 16; n++) {
            uint32_t right[4];
            mtk_read_pieces_turned(right, mine + k * 16 * mtk_pitch(WIDTH) + n * 16);
            mtk_multiply_add(sum[2 * n], left[k], right[0], right[1]);
            mtk_multiply_add(sum[2 * n + 1], left[k], right[2], right[3]);
        }
}

__device__ __forceinline__ uint32_t mtk_pack(float low, float high)
{
    __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&two);
}

/* What a product made, rounded, as a left operand. */
template <int PIECES>
__device__ __forceinline__ void mtk_left_of(uint32_t (&left)[PIECES / 2][4], const float (&sum)[PIECES][4])
{
#pragma unroll
    for (int k = 0; k < PIECES / 2; k++) {
        left[k][0] = mtk_pack(sum[2 * k][0], sum[2 * k][1]);
        left[k][1] = mtk_pack(sum[2 * k][2], sum[2 * k][3]);
        left[k][2] = mtk_pack(sum[2 * k + 1][0], sum[2 * k + 1][1]);
        left[k][3] = mtk_pack(sum[2 * k + 1][2], sum[2 * k + 1][3]);
    }
}

template <int PIECES> __device__ __forceinline__ void mtk_clear(float (&sum)[PIECES][4])
{
#pragma unroll
    for (int n = 0; n < PIECES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[n][e] = 0;
}

/* Writes 16 rows of a head from `row` on: sum times `low` (rows g) and `high` (rows g + 8), rounded. */
template <int WIDTH>
__device__ __forceinline__ void mtk_rows_write(mtk_head<mtk_bf16> head, int row, int length, int features,
                                               const float (&sum)[WIDTH / 8][4], float low, float high)
{
    int lane = (int)threadIdx.x % 32, first = row + lane / 4;
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n++) {
        int column = n * 8 + lane % 4 * 2;
        if (column >= features)
            continue;
        if (first < length)
            *reinterpret_cast<uint32_t *>(head.base + first * head.row + column) =
                mtk_pack(sum[n][0] * low, sum[n][1] * low);
        if (first + 8 < length)
            *reinterpret_cast<uint32_t *>(head.base + (first + 8) * head.row + column) =
                mtk_pack(sum[n][2] * high, sum[n][3] * high);
    }
}

/* 2^x, as the card's unit has it. */
__device__ __forceinline__ float mtk_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
