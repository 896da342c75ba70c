/* Common functions of the launchers: division by a number known at launch, and the launch itself. */
#pragma once

#include "base/status.h"
#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/queue.h"

/* The limit of elements or rows that one launch numbers, so that they are divided in 32 bits. Launchers split larger
 * numbers into several launches. */
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

/* Begins every kernel. Allows the next kernel of the queue to start launching, and waits until the previous one has
 * ended and its results are visible. So the cost of a launch overlaps with the previous kernel (programmatic dependent
 * launch). Does nothing before Hopper. */
__device__ __forceinline__ void mtk_await_turn()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
#endif
}

/* Fails because the card has less shared memory per thread block. Cards of one architecture differ in that. */
static inline mt_status mtk_fail_shared(const char *name, unsigned shared_bytes)
{
    int ordinal = 0, most_bytes = 0;
    (void)cudaGetLastError();
    if (cudaGetDevice(&ordinal) == cudaSuccess)
        (void)cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
    return mt_fail(MT_FAILED, "%s: a block of threads takes %u bytes of shared memory, and this card has %d for one",
                   name, shared_bytes, most_bytes);
}

/* Queues a kernel that begins with mtk_await_turn, with `shared_bytes` of shared memory in addition to its declared
 * memory. Errors contain `name`. */
template <class... PARAMETERS, class... ARGUMENTS>
static mt_status mtk_launch_shared(const char *name, void (*kernel)(PARAMETERS...), dim3 blocks, dim3 threads,
                                   unsigned shared_bytes, struct mtk_queue *queue, const ARGUMENTS &...arguments)
{
    constexpr unsigned USUAL_SHARED_BYTES = 32 << 10; /* of the 48 KiB that need no asking */
    constexpr int FIRST_TO_OVERLAP = 90;              /* Hopper */
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = queue->stream;
    config.attrs = &overlap;
    config.numAttrs = queue->capability >= FIRST_TO_OVERLAP ? 1 : 0;
    cudaError_t error = cudaSuccess;
    if (shared_bytes > USUAL_SHARED_BYTES)
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (error == cudaErrorInvalidValue)
        return mtk_fail_shared(name, shared_bytes);
    if (error == cudaSuccess)
        error = cudaLaunchKernelEx(&config, kernel, PARAMETERS(arguments)...);
    if (error == cudaSuccess)
        return MT_OK;
    return mt_fail_context(mtk_cuda_fail(error, "launch"), "%s, %u x %u blocks of %u x %u threads, %u bytes shared",
                           name, blocks.x, blocks.y, threads.x, threads.y, shared_bytes);
}

template <class... PARAMETERS, class... ARGUMENTS>
static mt_status mtk_launch(const char *name, void (*kernel)(PARAMETERS...), dim3 blocks, dim3 threads,
                            struct mtk_queue *queue, const ARGUMENTS &...arguments)
{
    return mtk_launch_shared(name, kernel, blocks, threads, 0, queue, arguments...);
}
