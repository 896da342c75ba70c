/* The lower triangle. `out` may be the same view as `in`. */
#include "kernels/cuda/view.cuh"

constexpr int THREADS = 256;

/* out(i, j, q, k) = k <= q ? in(i, j, q, k) : 0. A block processes row (i, j, q) with its number, a thread every
 * THREADS-th k. Every element of out is written. */
__global__ void __launch_bounds__(THREADS)
    triangle_kernel(mtk_device_view out, mtk_device_view in, mtk_rows rows, int64_t columns)
{
    mtk_await_turn();
    int64_t i, j, q;
    rows.split(blockIdx.x, &i, &j, &q);
    for (int64_t k = threadIdx.x; k < columns; k += THREADS)
        mtk_store<double>(out.at(i, j, q, k), out.dtype, k <= q ? mtk_load<double>(in.at(i, j, q, k), in.dtype) : 0.0);
}

mt_status mtk_cuda_lower_triangle(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    struct mtk_rows rows = {};
    mt_status status = mtk_rows_of("lower_triangle", out, &rows);
    if (status != MT_OK || rows.count == 0)
        return status;
    return mtk_launch("lower_triangle", triangle_kernel, rows.count, THREADS, queue, mtk_device_view_of(out),
                      mtk_device_view_of(in), rows, out->shape[3]);
}
