/* One element of each row, by index.
 *
 *   pick        out[i,j,n,0] = in[i,j,n,index[i,j,n,0]]
 *   place_add   out[i,j,n,index[i,j,n,0]] += in[i,j,n,0]   other elements of out are unchanged
 *
 * Rows do not overlap, so threads need no order. */
#include "kernels/cuda/view.cuh"

constexpr int THREADS = 128;

/* out[i,j,n,0] = in[i,j,n,index[i,j,n,0]]. A thread processes one row, a block THREADS rows. Every element of out is
 * written. */
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

/* out[i,j,n,index[i,j,n,0]] += in[i,j,n,0]. A thread processes one row, a block THREADS rows. One element of each row
 * is added to. */
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

/* Queues a kernel with one thread per row of `narrow`, which is (…, 1). The kernel's arguments are a, b and c. */
typedef void row_kernel(mtk_device_view, mtk_device_view, mtk_device_view, mtk_rows);
static mt_status launch(const char *name, row_kernel *kernel, const struct mtk_view *narrow, const struct mtk_view *a,
                        const struct mtk_view *b, const struct mtk_view *c, struct mtk_queue *queue)
{
    struct mtk_rows rows = {};
    mt_status status = mtk_rows_of(name, narrow, &rows);
    if (status != MT_OK || rows.count == 0)
        return status;
    int64_t blocks = mtk_ceiling(rows.count, THREADS);
    return mtk_launch(name, kernel, (unsigned)blocks, THREADS, queue, mtk_device_view_of(a), mtk_device_view_of(b),
                      mtk_device_view_of(c), rows);
}

mt_status mtk_cuda_pick(const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index,
                        struct mtk_queue *queue)
{
    return launch("pick", pick_kernel, out, out, in, index, queue);
}

mt_status mtk_cuda_place_add(const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in,
                             struct mtk_queue *queue)
{
    return launch("place_add", place_add_kernel, in, out, index, in, queue);
}
