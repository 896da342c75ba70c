/* One element of each row, by index.
 *
 *   pick        out[i,j,n,0] = in[i,j,n,index[i,j,n,0]]
 *   place_add   out[i,j,n,index[i,j,n,0]] += in[i,j,n,0]   nothing else of out is touched
 *
 * Rows are apart, so one thread a row has no order to keep. */
#include "kernels/cuda/view.cuh"

constexpr int THREADS = 128;

/* A thread takes a row: all of out is written. */
__global__ void __launch_bounds__(THREADS)
    pick_kernel(mtk_device_view out, mtk_device_view in, mtk_device_view index, mtk_rows rows)
{
    mtk_await_turn();
    int64_t i, j, n;
    uint32_t row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows.count)
        return;
    rows.split(row, &i, &j, &n);
    int64_t c = *reinterpret_cast<const int64_t *>(index.at(i, j, n, 0));
    mtk_store<double>(out.at(i, j, n, 0), out.dtype, mtk_load<double>(in.at(i, j, n, c), in.dtype));
}

/* A thread takes a row: one element of it is added to. */
__global__ void __launch_bounds__(THREADS)
    place_add_kernel(mtk_device_view out, mtk_device_view index, mtk_device_view in, mtk_rows rows)
{
    mtk_await_turn();
    int64_t i, j, n;
    uint32_t row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows.count)
        return;
    rows.split(row, &i, &j, &n);
    char *to = out.at(i, j, n, *reinterpret_cast<const int64_t *>(index.at(i, j, n, 0)));
    double sum = mtk_load<double>(to, out.dtype) + mtk_load<double>(in.at(i, j, n, 0), in.dtype);
    mtk_store<double>(to, out.dtype, sum);
}

mt_status mtk_cuda_pick(const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index,
                        struct mtk_queue *queue)
{
    struct mtk_rows rows = {};
    mt_status status = mtk_rows_of("pick", out, &rows);
    if (status != MT_OK || rows.count == 0)
        return status;
    int64_t blocks = mtk_ceiling(rows.count, THREADS);
    return mtk_launch("pick", pick_kernel, (unsigned)blocks, THREADS, queue, mtk_device_view_of(out),
                      mtk_device_view_of(in), mtk_device_view_of(index), rows);
}

mt_status mtk_cuda_place_add(const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in,
                             struct mtk_queue *queue)
{
    struct mtk_rows rows = {};
    mt_status status = mtk_rows_of("place_add", in, &rows);
    if (status != MT_OK || rows.count == 0)
        return status;
    int64_t blocks = mtk_ceiling(rows.count, THREADS);
    return mtk_launch("place_add", place_add_kernel, (unsigned)blocks, THREADS, queue, mtk_device_view_of(out),
                      mtk_device_view_of(index), mtk_device_view_of(in), rows);
}
