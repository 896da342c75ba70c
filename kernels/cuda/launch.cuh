/* What every launcher uses: division by a number known at launch, and the report of a launch's error. */
#ifndef MTK_CUDA_LAUNCH_CUH
#define MTK_CUDA_LAUNCH_CUH

#include "base/status.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/queue.h"

/* Numbers of a launch's elements stay below this, so that they are divided in 32 bits; launchers cut what is larger. */
constexpr int64_t MTK_MOST_UNITS = INT32_MAX;

/* Division of n < 2^31 by a fixed divisor in 1 … 2^31, by multiplication: n / divisor = (mulhi(n, multiplier) + n) >>
 * shift. Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994. */
struct mtk_divisor {
    uint32_t divisor, multiplier, shift;

    __device__ __forceinline__ uint32_t divide(uint32_t n) const
    {
        return (__umulhi(n, multiplier) + n) >> shift;
    }
};

static inline struct mtk_divisor mtk_divisor_of(int64_t number)
{
    uint32_t shift = 0;
    while (((uint64_t)1 << shift) < (uint64_t)number)
        shift++;
    uint64_t multiplier = ((((uint64_t)1 << shift) - (uint64_t)number) << 32) / (uint64_t)number + 1;
    return {(uint32_t)number, (uint32_t)multiplier, shift};
}

static inline int64_t mtk_ceiling(int64_t number, int64_t divisor)
{
    return (number + divisor - 1) / divisor;
}

static inline char *mtk_device_pointer(mt_addr address)
{
    return reinterpret_cast<char *>(static_cast<uintptr_t>(address));
}

/* The outcome of the launch just made. */
static inline mt_status mtk_launched(const char *kernel, int64_t blocks, int64_t threads)
{
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        return MT_OK;
    return mt_fail(MT_FAILED, "launch of %s with %lld blocks of %lld threads: %s (%d)", kernel, (long long)blocks,
                   (long long)threads, cudaGetErrorString(error), (int)error);
}

#endif
