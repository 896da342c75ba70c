/* Tiles of fp32 in shared memory and their products without matrix units, by a block of 16 x 16 threads.
 *
 * A block has MTK_OWN rows and streams tiles of MTK_STREAM other rows. In a product of own and streamed rows (OWN x
 * STREAM), thread (y, x) has rows y + 16 i and columns x + 16 j; the same in a product as wide as a head (OWN x WIDTH).
 * The 16 threads of a row are half a warp. */
#pragma once

#include "kernels/cuda/flash.cuh"

constexpr int MTK_OWN = 64, MTK_STREAM = 32, MTK_SIDE = 16, MTK_PLAIN_THREADS = MTK_SIDE * MTK_SIDE;
constexpr int MTK_OWN_EACH = MTK_OWN / MTK_SIDE, MTK_STREAM_EACH = MTK_STREAM / MTK_SIDE;
constexpr int MTK_WEIGHT_PITCH = MTK_STREAM + 1;

__host__ __device__ constexpr int mtk_plain_pitch(int width)
{
    return width + 4;
}

__device__ __forceinline__ int mtk_x()
{
    return (int)threadIdx.x % MTK_SIDE;
}

__device__ __forceinline__ int mtk_y()
{
    return (int)threadIdx.x / MTK_SIDE;
}

/* Copies rows [first, first + ROWS) of a head into a tile. Elements beyond its length or width become 0. */
template <int WIDTH, int ROWS>
__device__ __forceinline__ void mtk_plain_copy(float *tile, mtk_head<float> head, int first, int length, int features)
{
    constexpr int PIECES = WIDTH / 4;
    for (int n = (int)threadIdx.x; n < ROWS * PIECES; n += MTK_PLAIN_THREADS) {
        int row = n / PIECES, column = n % PIECES * 4;
        float4 four = {0, 0, 0, 0};
        if (first + row < length && column < features)
            four = *reinterpret_cast<const float4 *>(head.base + (first + row) * head.row + column);
        *reinterpret_cast<float4 *>(tile + row * mtk_plain_pitch(WIDTH) + column) = four;
    }
}

/* sum = own rows · (streamed rows)ᵀ. */
template <int WIDTH>
__device__ __forceinline__ void mtk_plain_dots(float (&sum)[MTK_OWN_EACH][MTK_STREAM_EACH], const float *own,
                                               const float *streamed)
{
#pragma unroll
    for (int i = 0; i < MTK_OWN_EACH; i++)
#pragma unroll
        for (int j = 0; j < MTK_STREAM_EACH; j++)
            sum[i][j] = 0;
#pragma unroll 4
    for (int d = 0; d < WIDTH; d += 4) {
        float4 a[MTK_OWN_EACH], b[MTK_STREAM_EACH];
#pragma unroll
        for (int i = 0; i < MTK_OWN_EACH; i++)
            a[i] = *reinterpret_cast<const float4 *>(own + (mtk_y() + i * MTK_SIDE) * mtk_plain_pitch(WIDTH) + d);
#pragma unroll
        for (int j = 0; j < MTK_STREAM_EACH; j++)
            b[j] = *reinterpret_cast<const float4 *>(streamed + (mtk_x() + j * MTK_SIDE) * mtk_plain_pitch(WIDTH) + d);
#pragma unroll
        for (int i = 0; i < MTK_OWN_EACH; i++)
#pragma unroll
            for (int j = 0; j < MTK_STREAM_EACH; j++) {
                sum[i][j] += a[i].x * b[j].x;
                sum[i][j] += a[i].y * b[j].y;
                sum[i][j] += a[i].z * b[j].z;
                sum[i][j] += a[i].w * b[j].w;
            }
    }
}

/* Copies the result of a product to shared memory, where all threads can read it. */
__device__ __forceinline__ void mtk_plain_share(float *weights, const float (&value)[MTK_OWN_EACH][MTK_STREAM_EACH])
{
#pragma unroll
    for (int i = 0; i < MTK_OWN_EACH; i++)
#pragma unroll
        for (int j = 0; j < MTK_STREAM_EACH; j++)
            weights[(mtk_y() + i * MTK_SIDE) * MTK_WEIGHT_PITCH + mtk_x() + j * MTK_SIDE] = value[i][j];
}

/* sum += weights (OWN x STREAM) · streamed rows. */
template <int WIDTH>
__device__ __forceinline__ void mtk_plain_add(float (&sum)[MTK_OWN_EACH][WIDTH / MTK_SIDE], const float *weights,
                                              const float *streamed)
{
#pragma unroll 4
    for (int c = 0; c < MTK_STREAM; c++) {
        float weight[MTK_OWN_EACH];
#pragma unroll
        for (int i = 0; i < MTK_OWN_EACH; i++)
            weight[i] = weights[(mtk_y() + i * MTK_SIDE) * MTK_WEIGHT_PITCH + c];
#pragma unroll
        for (int j = 0; j < WIDTH / MTK_SIDE; j++) {
            float value = streamed[c * mtk_plain_pitch(WIDTH) + mtk_x() + j * MTK_SIDE];
#pragma unroll
            for (int i = 0; i < MTK_OWN_EACH; i++)
                sum[i][j] += weight[i] * value;
        }
    }
}

template <int WIDTH> __device__ __forceinline__ void mtk_plain_clear(float (&sum)[MTK_OWN_EACH][WIDTH / MTK_SIDE])
{
#pragma unroll
    for (int i = 0; i < MTK_OWN_EACH; i++)
#pragma unroll
        for (int j = 0; j < WIDTH / MTK_SIDE; j++)
            sum[i][j] = 0;
}

/* Writes own rows from `first` on: sum times one factor per row. */
template <int WIDTH>
__device__ __forceinline__ void mtk_plain_write(mtk_head<float> head, int first, int length, int features,
                                                const float (&sum)[MTK_OWN_EACH][WIDTH / MTK_SIDE],
                                                const float (&factor)[MTK_OWN_EACH])
{
#pragma unroll
    for (int i = 0; i < MTK_OWN_EACH; i++) {
        int row = first + mtk_y() + i * MTK_SIDE;
#pragma unroll
        for (int j = 0; j < WIDTH / MTK_SIDE; j++) {
            int column = mtk_x() + j * MTK_SIDE;
            if (row < length && column < features)
                head.base[row * head.row + column] = sum[i][j] * factor[i];
        }
    }
}
