/* Casts to fp8: finds the largest magnitude of `in`, then writes codes = in / scale and `turned`, their transpose.
 *
 *   in, TILE x TILE ──read rows──▶ registers, 4 x 8 a thread ──▶ codes
 *                                         │ 4 x 4 bytes turned
 *                                         ▼
 *                          shared memory: a word holds 4 rows of a column ──read columns──▶ turned
 *
 * Unless the scale is given, a first kernel finds the largest magnitudes of parts, and each block of the second kernel
 * the maximum of those, without a launch in between. A maximum does not depend on the order. Everything is aligned to
 * 16 (kernels.h), and accesses have 8 or 16 bytes. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/fp8.h"

#include <cuda_fp8.h>

constexpr int THREADS = 256, WARP = 32;

/* Adjacent columns and rows per thread, and the tile of a block: PASSES times ROWS rows. */
constexpr int COLUMNS = 8, ROWS = 4, TILE = 128;
constexpr int LANES = TILE / COLUMNS, PASSES = TILE / (THREADS / LANES * ROWS);
static_assert(COLUMNS == 2 * ROWS, "a thread turns two squares of ROWS x ROWS codes");

/* A column of the tile in shared memory has TILE / ROWS words and one word of padding, so that threads that read
 * different columns access different banks. */
constexpr int WORDS = TILE / ROWS, PITCH = WORDS + 1;

/* The parameters of a cast. `turned` has `padded` elements per row. */
struct cast {
    uint32_t *scale;         /* the scale's number, then the numbers of `parts` parts */
    int parts;               /* 0: the scale is given */
    uint8_t *codes, *turned; /* nullptr: not requested */
    const char *in;
    int dtype; /* of codes */
    int64_t rows, columns, padded;
    struct mtk_divisor column_tiles;
};

static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Returns the largest number in the block to all threads. */
static __device__ __forceinline__ uint32_t largest_of_block(uint32_t mine)
{
    __shared__ uint32_t of_warp[THREADS / WARP];
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        mine = larger(mine, __shfl_xor_sync(0xFFFFFFFF, mine, lanes));
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = mine;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < THREADS / WARP; warp++)
        mine = larger(mine, of_warp[warp]);
    return mine;
}

/* part[b] = the bits of the largest |in| of block b; as integers they have the order of the magnitudes, and nan is
 * above all. A block reads THREADS * COLUMNS neighbours at a time, of `groups` groups of COLUMNS, and a thread reads
 * AT_ONCE groups before it uses the first. */
template <int IN>
__global__ void __launch_bounds__(THREADS) largest_kernel(const char *in, int64_t groups, uint32_t *part)
{
    mtk_await_turn();
    constexpr uint32_t MAGNITUDE = 0x7FFFFFFF;
    constexpr int AT_ONCE = 4;
    uint32_t mine = 0;
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t first = (int64_t)blockIdx.x * THREADS + threadIdx.x; first < groups; first += AT_ONCE * step) {
        mtk_words<float, COLUMNS> words[AT_ONCE] = {};
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i * step < groups)
                words[i] = mtk_read<float, COLUMNS>(in + (first + i * step) * COLUMNS * mtk_size_of(IN), IN);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float value[COLUMNS];
            mtk_decode<float, COLUMNS>(words[i], IN, value);
#pragma unroll
            for (int e = 0; e < COLUMNS; e++)
                mine = larger(mine, __float_as_uint(value[e]) & MAGNITUDE);
        }
    }
    mine = largest_of_block(mine);
    if (threadIdx.x == 0)
        part[blockIdx.x] = mine;
}

/* Returns 1 / scale to all threads of the block. The first block writes the scale if it was not given. */
static __device__ __forceinline__ float inverse_scale(const cast &c)
{
    if (c.parts == 0)
        return __uint_as_float(mtk_fp8_inverse_bits(c.scale[0]));
    uint32_t mine = 0;
    for (int i = threadIdx.x; i < c.parts; i += THREADS)
        mine = larger(mine, c.scale[1 + i]);
    uint32_t scale = mtk_fp8_scale_bits((mt_dtype)c.dtype, largest_of_block(mine));
    if (blockIdx.x == 0 && threadIdx.x == 0)
        c.scale[0] = scale;
    return __uint_as_float(mtk_fp8_inverse_bits(scale));
}

/* Returns the codes of two neighbours, the first in the low byte. */
static __device__ __forceinline__ uint32_t codes_of(float first, float second, int dtype)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE,
                                    dtype == MT_F8_E4M3FN ? __NV_E4M3 : __NV_E5M2);
}

/* Returns the codes of COLUMNS neighbours in two words. */
template <int IN>
static __device__ __forceinline__ uint2 encode(const mtk_words<float, COLUMNS> &words, float inverse, int dtype)
{
    float v[COLUMNS];
    mtk_decode<float, COLUMNS>(words, IN, v);
#pragma unroll
    for (int e = 0; e < COLUMNS; e++)
        v[e] *= inverse;
    return make_uint2(codes_of(v[0], v[1], dtype) | codes_of(v[2], v[3], dtype) << 16,
                      codes_of(v[4], v[5], dtype) | codes_of(v[6], v[7], dtype) << 16);
}

/* Transposes four rows of four codes in place. */
static __device__ __forceinline__ void turn(uint32_t (&word)[ROWS])
{
    uint32_t a = __byte_perm(word[0], word[1], 0x5140), b = __byte_perm(word[2], word[3], 0x5140);
    uint32_t c = __byte_perm(word[0], word[1], 0x7362), d = __byte_perm(word[2], word[3], 0x7362);
    word[0] = __byte_perm(a, b, 0x5410);
    word[1] = __byte_perm(a, b, 0x7632);
    word[2] = __byte_perm(c, d, 0x5410);
    word[3] = __byte_perm(c, d, 0x7632);
}

/* Casts the thread's rows of one pass. Writes their codes, and their transpose to shared memory, with zeros outside the
 * matrix. */
template <int IN>
static __device__ __forceinline__ void cast_rows(const cast &c, float inverse, int64_t row, int64_t column,
                                                 uint32_t (*tile)[PITCH])
{
    mtk_words<float, COLUMNS> words[ROWS] = {};
    uint32_t left[ROWS] = {}, right[ROWS] = {};
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (row + r < c.rows && column < c.columns)
            words[r] = mtk_read<float, COLUMNS>(c.in + ((row + r) * c.columns + column) * mtk_size_of(IN), IN);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (row + r >= c.rows || column >= c.columns)
            break;
        uint2 codes = encode<IN>(words[r], inverse, c.dtype);
        left[r] = codes.x;
        right[r] = codes.y;
        if (c.codes != nullptr)
            *reinterpret_cast<uint2 *>(c.codes + (row + r) * c.columns + column) = codes;
    }
    turn(left);
    turn(right);
#pragma unroll
    for (int e = 0; e < ROWS; e++) {
        tile[e][0] = left[e];
        tile[e + ROWS][0] = right[e];
    }
}

/* Writes the tile's columns, MTK_FP8_UNIT rows per thread at a time. */
static __device__ __forceinline__ void write_columns(const cast &c, int64_t row, int64_t column,
                                                     const uint32_t (*tile)[PITCH])
{
    constexpr int PIECES = TILE / MTK_FP8_UNIT, PIECE_WORDS = MTK_FP8_UNIT / ROWS;
    int piece = threadIdx.x % PIECES;
    for (int at = threadIdx.x / PIECES; at < TILE; at += THREADS / PIECES) {
        const uint32_t *word = &tile[at][piece * PIECE_WORDS];
        int64_t to = row + piece * MTK_FP8_UNIT;
        if (column + at < c.columns && to < c.padded)
            *reinterpret_cast<uint4 *>(c.turned + (column + at) * c.padded + to) =
                make_uint4(word[0], word[1], word[2], word[3]);
    }
}

/* codes = in / scale, turned = codes transposed. A block casts one tile, a thread PASSES pieces of ROWS x COLUMNS.
 * Everything is written. */
template <int IN> __global__ void __launch_bounds__(THREADS) cast_kernel(const __grid_constant__ cast c)
{
    mtk_await_turn();
    __shared__ uint32_t tile[TILE][PITCH];
    uint32_t tile_row = c.column_tiles.divide(blockIdx.x);
    int64_t row = (int64_t)tile_row * TILE;
    int64_t column = (int64_t)(blockIdx.x - tile_row * c.column_tiles.divisor) * TILE;
    float inverse = inverse_scale(c);
    int lane = threadIdx.x % LANES, first = threadIdx.x / LANES;
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++) {
        int piece = pass * (THREADS / LANES) + first;
        cast_rows<IN>(c, inverse, row + piece * ROWS, column + lane * COLUMNS,
                      reinterpret_cast<uint32_t(*)[PITCH]>(&tile[lane * COLUMNS][piece]));
    }
    if (c.turned == nullptr)
        return;
    __syncthreads();
    write_columns(c, row, column, tile);
}

/* Returns the number of blocks, and so of parts, that find the largest magnitudes. */
static int parts_of(int64_t groups)
{
    const int64_t blocks = mtk_ceiling(groups, THREADS), most = MTK_FP8_PARTS;
    return (int)(blocks < most ? blocks : most);
}

static int64_t tiles_of(int64_t rows, int64_t columns)
{
    return mtk_ceiling(columns, TILE) * mtk_ceiling(rows, TILE);
}

/* Queues the kernels for `in` of dtype IN. */
template <int IN> static mt_status launch(const cast &c, struct mtk_queue *queue)
{
    mt_status status = MT_OK;
    if (c.parts > 0)
        status = mtk_launch("largest", largest_kernel<IN>, (unsigned)c.parts, THREADS, queue, c.in,
                            c.rows * c.columns / COLUMNS, c.scale + 1);
    if (status != MT_OK)
        return status;
    return mtk_launch("cast_fp8", cast_kernel<IN>, (unsigned)tiles_of(c.rows, c.columns), THREADS, queue, c);
}

static uint8_t *place_of(const struct mtk_view *view)
{
    return view != nullptr ? reinterpret_cast<uint8_t *>(mtk_device_pointer(view->address)) : nullptr;
}

mt_status mtk_cuda_cast_fp8(mtk_scale_origin origin, const struct mtk_view *scale, const struct mtk_view *codes,
                            const struct mtk_view *turned, const struct mtk_view *in, struct mtk_queue *queue)
{
    int64_t rows = in->shape[0] * in->shape[1] * in->shape[2], columns = in->shape[3];
    if (tiles_of(rows, columns) > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "cast_fp8: %lld x %lld elements are more than one launch casts", (long long)rows,
                       (long long)columns);
    const cast c = {.scale = reinterpret_cast<uint32_t *>(mtk_device_pointer(scale->address)),
                    .parts = origin == MTK_SCALE_IS_FOUND ? parts_of(rows * columns / COLUMNS) : 0,
                    .codes = place_of(codes),
                    .turned = place_of(turned),
                    .in = mtk_device_pointer(in->address),
                    .dtype = codes != nullptr ? codes->dtype : turned->dtype,
                    .rows = rows,
                    .columns = columns,
                    .padded = mtk_fp8_padded(rows),
                    .column_tiles = mtk_divisor_of(mtk_ceiling(columns, TILE))};
    return in->dtype == MT_BF16 ? launch<MT_BF16>(c, queue) : launch<MT_F32>(c, queue);
}
