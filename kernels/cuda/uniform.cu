/* Uniform random numbers. They have the same bits as on the CPU, since each product and sum is rounded separately. */
#include "kernels/cuda/view.cuh"

#include "base/random.h"

constexpr int THREADS = 256;

/* Element e of out, row-major, = center + (2 unit(generator, e) - 1) * spread. A thread computes one element, a block
 * THREADS. Every element of out is written. */
__global__ void __launch_bounds__(THREADS)
    uniform_kernel(uint64_t generator, double center, double spread, mtk_device_view out, int64_t count)
{
    mtk_await_turn();
    int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (e >= count)
        return;
    double unit = mt_random_unit(generator, (uint64_t)e);
    double value = __dadd_rn(center, __dmul_rn(__dadd_rn(__dmul_rn(2, unit), -1), spread));
    mtk_store<double>(out.at(0, 0, 0, e), out.dtype, value);
}

mt_status mtk_cuda_random(uint64_t generator, double center, double spread, const struct mtk_view *out,
                          struct mtk_queue *queue)
{
    int64_t count = out->shape[0] * out->shape[1] * out->shape[2] * out->shape[3];
    if (count == 0)
        return MT_OK;
    struct mtk_device_view row = mtk_device_view_of(out);
    row.stride[MT_MAX_DIMS - 1] = mtk_size_of(out->dtype); /* contiguous, for any size of the last dimension */
    int64_t blocks = mtk_ceiling(count, THREADS);
    if (blocks > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "random: %lld elements are more than a launch numbers", (long long)count);
    return mtk_launch("random", uniform_kernel, (unsigned)blocks, THREADS, queue, generator, center, spread, row,
                      count);
}
