/* Tiles in shared memory and their products on the matrix units, one warp at a time: for bf16, and for fp32 rounded to
 * tf32 when read.
 *
 * A warp multiplies pieces of 16 x DEPTH by DEPTH x 8. DEPTH is 16 for bf16 (mma m16n8k16) and 8 for tf32 (m16n8k8). In
 * an accumulator's piece of 16 x 8, thread 4g + t has elements (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
 * After rounding, two adjacent pieces of bf16 form a left operand's piece. So does one piece of tf32, if the columns
 * that it multiplies are renumbered: 2t becomes t, and 2t + 1 becomes t + 4. So the result of one product becomes the
 * operand of another without leaving the registers.
 *
 * The pitch of a tile's rows is 16 bytes longer than the row, so that a warp's simultaneous reads use different
 * banks. */
#pragma once

#include "kernels/cuda/flash.cuh"

/* The elements of a row in a piece's product. */
template <class E> constexpr int MTK_DEPTH = 32 / sizeof(E);

/* Returns the elements from one row of a tile to the next. */
template <class E> __host__ __device__ constexpr int mtk_pitch(int width)
{
    return width + 16 / (int)sizeof(E);
}

__device__ __forceinline__ unsigned mtk_shared_address(const void *pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

/* Start to copy 16 or 4 bytes to shared memory, or clear them if not `there`. */
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

/* Waits for all copies that this thread started. */
__device__ __forceinline__ void mtk_copies_wait()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Starts to copy rows [first, first + ROWS) of a head into a tile. Elements beyond its length or width become 0. */
template <int WIDTH, int ROWS, int THREADS, class E>
__device__ __forceinline__ void mtk_tile_copy(E *tile, mtk_head<E> head, int first, int length, int features)
{
    constexpr int EACH = 16 / (int)sizeof(E), PIECES = WIDTH / EACH;
    for (int n = (int)threadIdx.x; n < ROWS * PIECES; n += THREADS) {
        int row = n / PIECES, column = n % PIECES * EACH;
        bool there = first + row < length && column < features;
        const E *from = there ? head.base + (first + row) * head.row + column : head.base;
        mtk_copy_16(tile + row * mtk_pitch<E>(WIDTH) + column, from, there);
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

/* sum += left * right, of one piece each. */
__device__ __forceinline__ void mtk_multiply_add(float (&sum)[4], const uint32_t (&left)[4], uint32_t right0,
                                                 uint32_t right1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

__device__ __forceinline__ void mtk_multiply_add_tf32(float (&sum)[4], const uint32_t (&left)[4], uint32_t right0,
                                                      uint32_t right1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

/* Returns the value rounded to tf32, halves away from 0. */
__device__ __forceinline__ uint32_t mtk_tf32(float value)
{
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
    return rounded;
}

/* 16 rows of a tile as a left operand. bf16 is in registers, so that the tile may be overwritten; fp32 stays in the
 * tile. */
template <class E, int WIDTH> struct mtk_left;

template <int WIDTH> struct mtk_left<mtk_bf16, WIDTH> {
    uint32_t pieces[WIDTH / 16][4];

    /* Takes the rows of the tile from `row` on. */
    __device__ __forceinline__ void read(const mtk_bf16 *tile, int row)
    {
        int lane = (int)threadIdx.x % 32;
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++)
            mtk_read_pieces(pieces[k], tile + (row + lane % 16) * mtk_pitch<mtk_bf16>(WIDTH) + k * 16 + lane / 16 * 8);
    }
};

template <int WIDTH> struct mtk_left<float, WIDTH> {
    const float *mine;

    __device__ __forceinline__ void read(const float *tile, int row)
    {
        int lane = (int)threadIdx.x % 32;
        mine = tile + (row + lane / 4) * mtk_pitch<float>(WIDTH) + lane % 4;
    }

    __device__ __forceinline__ void piece(uint32_t (&out)[4], int k) const
    {
        const float *at = mine + k * 8;
        out[0] = mtk_tf32(at[0]);
        out[1] = mtk_tf32(at[8 * mtk_pitch<float>(WIDTH)]);
        out[2] = mtk_tf32(at[4]);
        out[3] = mtk_tf32(at[8 * mtk_pitch<float>(WIDTH) + 4]);
    }
};

/* sum (16 x 8 PIECES) += left (16 x WIDTH) · (8 PIECES rows of a tile)ᵀ. */
template <int WIDTH, int PIECES>
__device__ __forceinline__ void mtk_times_rows(float (&sum)[PIECES][4], const mtk_left<mtk_bf16, WIDTH> &left,
                                               const mtk_bf16 *tile)
{
    constexpr int PITCH = mtk_pitch<mtk_bf16>(WIDTH);
    int lane = (int)threadIdx.x % 32;
    const mtk_bf16 *mine = tile + (lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < PIECES / 2; n++)
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++) {
            uint32_t right[4];
            mtk_read_pieces(right, mine + n * 16 * PITCH + k * 16);
            mtk_multiply_add(sum[2 * n], left.pieces[k], right[0], right[1]);
            mtk_multiply_add(sum[2 * n + 1], left.pieces[k], right[2], right[3]);
        }
}

template <int WIDTH, int PIECES>
__device__ __forceinline__ void mtk_times_rows(float (&sum)[PIECES][4], const mtk_left<float, WIDTH> &left,
                                               const float *tile)
{
    constexpr int PITCH = mtk_pitch<float>(WIDTH);
    int lane = (int)threadIdx.x % 32;
    const float *mine = tile + lane / 4 * PITCH + lane % 4;
#pragma unroll
    for (int k = 0; k < WIDTH / 8; k++) {
        uint32_t piece[4];
        left.piece(piece, k);
#pragma unroll
        for (int n = 0; n < PIECES; n++) {
            const float *right = mine + n * 8 * PITCH + k * 8;
            mtk_multiply_add_tf32(sum[n], piece, mtk_tf32(right[0]), mtk_tf32(right[4]));
        }
    }
}

/* The rounded result of a product, 16 x 8 PIECES, as a left operand. */
template <class E, int PIECES> struct mtk_made {
    static constexpr int COUNT = PIECES * 8 / MTK_DEPTH<E>;
    uint32_t pieces[COUNT][4];
};

/* sum (16 x WIDTH) += left (16 x 8 PIECES) · 8 PIECES rows of a tile. */
template <int WIDTH, int PIECES>
__device__ __forceinline__ void mtk_times_tile(float (&sum)[WIDTH / 8][4], const mtk_made<mtk_bf16, PIECES> &left,
                                               const mtk_bf16 *tile)
{
    constexpr int PITCH = mtk_pitch<mtk_bf16>(WIDTH);
    int lane = (int)threadIdx.x % 32;
    const mtk_bf16 *mine = tile + lane % 16 * PITCH + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < PIECES / 2; k++)
#pragma unroll
        for (int n = 0; n < WIDTH / 16; n++) {
            uint32_t right[4];
            mtk_read_pieces_turned(right, mine + k * 16 * PITCH + n * 16);
            mtk_multiply_add(sum[2 * n], left.pieces[k], right[0], right[1]);
            mtk_multiply_add(sum[2 * n + 1], left.pieces[k], right[2], right[3]);
        }
}

template <int WIDTH, int PIECES>
__device__ __forceinline__ void mtk_times_tile(float (&sum)[WIDTH / 8][4], const mtk_made<float, PIECES> &left,
                                               const float *tile)
{
    constexpr int PITCH = mtk_pitch<float>(WIDTH);
    int lane = (int)threadIdx.x % 32;
    const float *mine = tile + lane % 4 * 2 * PITCH + lane / 4;
#pragma unroll
    for (int k = 0; k < PIECES; k++)
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) {
            const float *right = mine + k * 8 * PITCH + n * 8;
            mtk_multiply_add_tf32(sum[n], left.pieces[k], mtk_tf32(right[0]), mtk_tf32(right[PITCH]));
        }
}

__device__ __forceinline__ uint32_t mtk_pack(float low, float high)
{
    __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&two);
}

template <int PIECES>
__device__ __forceinline__ void mtk_left_of(mtk_made<mtk_bf16, PIECES> &left, const float (&sum)[PIECES][4])
{
#pragma unroll
    for (int k = 0; k < PIECES / 2; k++) {
        left.pieces[k][0] = mtk_pack(sum[2 * k][0], sum[2 * k][1]);
        left.pieces[k][1] = mtk_pack(sum[2 * k][2], sum[2 * k][3]);
        left.pieces[k][2] = mtk_pack(sum[2 * k + 1][0], sum[2 * k + 1][1]);
        left.pieces[k][3] = mtk_pack(sum[2 * k + 1][2], sum[2 * k + 1][3]);
    }
}

template <int PIECES>
__device__ __forceinline__ void mtk_left_of(mtk_made<float, PIECES> &left, const float (&sum)[PIECES][4])
{
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
        left.pieces[k][0] = mtk_tf32(sum[k][0]);
        left.pieces[k][1] = mtk_tf32(sum[k][2]);
        left.pieces[k][2] = mtk_tf32(sum[k][1]);
        left.pieces[k][3] = mtk_tf32(sum[k][3]);
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

__device__ __forceinline__ void mtk_pair_write(mtk_bf16 *at, float low, float high)
{
    *reinterpret_cast<uint32_t *>(at) = mtk_pack(low, high);
}

__device__ __forceinline__ void mtk_pair_write(float *at, float low, float high)
{
    *reinterpret_cast<float2 *>(at) = make_float2(low, high);
}

/* Writes 16 rows of a head from `row` on: sum times `low` (rows g) and `high` (rows g + 8), rounded. */
template <int WIDTH, class E>
__device__ __forceinline__ void mtk_rows_write(mtk_head<E> head, int row, int length, int features,
                                               const float (&sum)[WIDTH / 8][4], float low, float high)
{
    int lane = (int)threadIdx.x % 32, first = row + lane / 4;
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n++) {
        int column = n * 8 + lane % 4 * 2;
        if (column >= features)
            continue;
        if (first < length)
            mtk_pair_write(head.base + first * head.row + column, sum[n][0] * low, sum[n][1] * low);
        if (first + 8 < length)
            mtk_pair_write(head.base + (first + 8) * head.row + column, sum[n][2] * high, sum[n][3] * high);
    }
}

/* Returns 2^x from the card's special function unit. */
__device__ __forceinline__ float mtk_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
