/* Sums over the threads of a warp or a block. Every thread gets the result. */
#pragma once

constexpr int MTK_WARP = 32;

/* Returns the sum over the warp to all lanes. */
template <typename T> __device__ __forceinline__ T mtk_warp_sum(T value)
{
#pragma unroll
    for (int distance = MTK_WARP / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    return value;
}

/* Returns the sum over the block to all threads. Their number is a multiple of 32. `of_warp` has room for 32 values,
 * and may be reused after another barrier of all threads. */
template <typename T> __device__ __forceinline__ T mtk_block_sum(T value, T *of_warp)
{
    int lane = (int)threadIdx.x % MTK_WARP, warps = (int)blockDim.x / MTK_WARP;
    value = mtk_warp_sum(value);
    if (lane == 0)
        of_warp[threadIdx.x / MTK_WARP] = value;
    __syncthreads();
    return mtk_warp_sum(lane < warps ? of_warp[lane] : (T)0);
}
