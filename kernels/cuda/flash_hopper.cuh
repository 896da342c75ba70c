/* The common parts of the attention kernels for Hopper: tiles of heads, and rows written through shared memory. */
#pragma once

#include "kernels/attention_plan.h"
#include "kernels/cuda/hopper.cuh"

/* Returns the chunks of a row with this many columns. */
__host__ __device__ constexpr int mtk_chunks(int width)
{
    return (width + MTK_CHUNK - 1) / MTK_CHUNK;
}

/* Returns the bytes of a tile with this many rows. */
__host__ __device__ constexpr uint32_t mtk_tile_bytes(int rows, int width)
{
    return (uint32_t)(mtk_chunks(width) * rows) * MTK_CHUNK_ROW;
}

/* Starts to copy a tile of ROWS rows with all chunks. The barrier expects mtk_tile_bytes(ROWS, WIDTH). */
template <int WIDTH, int ROWS>
__device__ __forceinline__ void mtk_tile_load(uint32_t tile, const mtk_tensor_map *map, uint64_t *barrier, int row,
                                              const mtk_part &part)
{
#pragma unroll
    for (int chunk = 0; chunk < mtk_chunks(WIDTH); chunk++)
        mtk_tensor_copy(tile + (uint32_t)(chunk * ROWS) * MTK_CHUNK_ROW, map, barrier, chunk * MTK_CHUNK, row,
                        part.head, part.batch);
}

/* Signals that the warp no longer reads a stage. */
__device__ __forceinline__ void mtk_leave(uint64_t *empty)
{
    if (threadIdx.x % 32 == 0)
        mtk_barrier_arrive(empty);
}

/* Returns how many heads the blocks process at once: as many as have rows, of `row_bytes`, that fit in a part of the
 * cache, and at least `least`. */
static inline int mtk_section_of(const mtk_flash<mtk_bf16> &call, int64_t row_bytes, int64_t least)
{
    constexpr int64_t CACHE_BYTES = 20 << 20;
    int64_t heads = CACHE_BYTES / (row_bytes * call.length);
    heads = heads < least ? least : heads;
    return (int)(heads < call.total ? heads : call.total);
}

/* Packs the results of adjacent pieces of 8 columns, 2 k and 2 k + 1, as a left operand. */
template <int COUNT>
__device__ __forceinline__ void mtk_left_pack(uint32_t (&left)[4], const float (&sum)[COUNT], int k)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        left[i] = mtk_pack(sum[8 * k + 2 * i], sum[8 * k + 2 * i + 1]);
}

/* Writes a warp's 16 rows of a head from `row` on: sum times `low` (rows g) and `high` (rows g + 8), rounded. They are
 * written through rows `own` on of a tile of ROWS rows in shared memory, which no other warp uses, so that a thread
 * writes 16 bytes of a row at a time. Changes `sum`. */
template <int WIDTH, int ROWS>
__device__ __forceinline__ void mtk_rows_store(uint32_t tile, int own, const mtk_head<mtk_bf16> &head, int row,
                                               int length, int features, float (&sum)[WIDTH / 2], float low, float high)
{
    constexpr int PIECES = WIDTH / 8;
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < WIDTH / 2; i++)
        sum[i] *= i / 2 % 2 == 0 ? low : high;
#pragma unroll
    for (int k = 0; k < PIECES / 2; k++) {
        uint32_t two[4];
        mtk_left_pack(two, sum, k);
        int piece = 2 * k + lane / 16;
        mtk_pieces_store(
            mtk_piece_address(tile + (uint32_t)(piece / 8 * ROWS) * MTK_CHUNK_ROW, own + lane % 16, piece % 8), two[0],
            two[1], two[2], two[3]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < PIECES / 2; i++) {
        int n = i * 32 + lane, at = n / PIECES, piece = n % PIECES;
        if (row + at >= length || piece * 8 >= features)
            continue;
        uint32_t from = mtk_piece_address(tile + (uint32_t)(piece / 8 * ROWS) * MTK_CHUNK_ROW, own + at, piece % 8);
        uint4 words;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                     : "r"(from));
        *reinterpret_cast<uint4 *>(head.base + (row + at) * head.row + piece * 8) = words;
    }
    __syncwarp();
}
