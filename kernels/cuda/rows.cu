/* Rows of a table by index: gather_rows reads them, scatter_add_rows adds to them.
 *
 *   gather_rows        out[i,j,n,c] = table[0,0,index[i,j,n,0],c]
 *   scatter_add_rows   table[0,0,index[i,j,n,0],c] += in[i,j,n,c]   rounded after each addition, in row-major order
 *
 * Every element of `out` is written. Of the table only the rows that an index names are added to. */
#include "kernels/cuda/view.cuh"

constexpr int THREADS = 256;

__device__ __forceinline__ int64_t index_at(const mtk_device_view &index, const mtk_rows &rows, uint32_t row)
{
    int64_t i, j, n;
    rows.split(row, &i, &j, &n);
    return *reinterpret_cast<const int64_t *>(index.at(i, j, n, 0));
}

/* out[i,j,n,c] = table[0,0,index[i,j,n,0],c]. A block takes the row of its number, a thread every THREADS-th column of
 * it. Every element of out is written. */
__global__ void __launch_bounds__(THREADS)
    gather_kernel(mtk_device_view out, mtk_device_view table, mtk_device_view index, mtk_rows rows, int64_t columns)
{
    mtk_await_turn();
    int64_t i, j, n;
    rows.split(blockIdx.x, &i, &j, &n);
    int64_t row = index_at(index, rows, blockIdx.x);
    for (int64_t c = threadIdx.x; c < columns; c += THREADS)
        mtk_store<double>(out.at(i, j, n, c), out.dtype, mtk_load<double>(table.at(0, 0, row, c), table.dtype));
}

/* True if a row before `last` has the index `wanted`. All threads of a block get the same answer. */
__device__ bool named_before(const mtk_device_view &index, const mtk_rows &rows, uint32_t last, int64_t wanted)
{
    bool found = false;
    for (uint32_t row = threadIdx.x; row < last && !found; row += THREADS)
        found = index_at(index, rows, row) == wanted;
    return __syncthreads_or(found);
}

/* Adds a row of `in` to row `named` of the table. A thread takes every THREADS-th column, in every row the same. */
__device__ void add_row(const mtk_device_view &table, const mtk_device_view &in, const mtk_rows &rows, int64_t named,
                        uint32_t row, int64_t columns)
{
    int64_t i, j, n;
    rows.split(row, &i, &j, &n);
    for (int64_t c = threadIdx.x; c < columns; c += THREADS) {
        char *to = table.at(0, 0, named, c);
        double sum = mtk_load<double>(to, table.dtype) + mtk_load<double>(in.at(i, j, n, c), in.dtype);
        mtk_store<double>(to, table.dtype, sum);
    }
}

/* table[0,0,index[i,j,n,0],c] += in[i,j,n,c]. A block takes the row of its number. If that is the first with its index,
 * the block adds all rows with the same index, in order; otherwise it ends. A thread takes every THREADS-th column. It
 * is the only one to add to them, so the loop's order is that of the sum. Rows of the table that an index names are
 * added to. */
__global__ void __launch_bounds__(THREADS)
    scatter_add_kernel(mtk_device_view table, mtk_device_view index, mtk_device_view in, mtk_rows rows, int64_t columns)
{
    mtk_await_turn();
    __shared__ bool names_it[THREADS];
    int64_t named = index_at(index, rows, blockIdx.x);
    if (named_before(index, rows, blockIdx.x, named))
        return;
    for (uint32_t first = blockIdx.x; first < rows.count; first += THREADS) {
        uint32_t mine = first + threadIdx.x;
        bool is_named = mine < rows.count && index_at(index, rows, mine) == named;
        names_it[threadIdx.x] = is_named;
        if (__syncthreads_or(is_named))
            for (int i = 0; i < THREADS; i++)
                if (names_it[i])
                    add_row(table, in, rows, named, first + i, columns);
        __syncthreads();
    }
}

mt_status mtk_cuda_gather_rows(const struct mtk_view *out, const struct mtk_view *table, const struct mtk_view *index,
                               struct mtk_queue *queue)
{
    struct mtk_rows rows = {};
    mt_status status = mtk_rows_of("gather_rows", out, &rows);
    if (status != MT_OK || rows.count == 0)
        return status;
    return mtk_launch("gather_rows", gather_kernel, rows.count, THREADS, queue, mtk_device_view_of(out),
                      mtk_device_view_of(table), mtk_device_view_of(index), rows, out->shape[3]);
}

mt_status mtk_cuda_scatter_add_rows(const struct mtk_view *table, const struct mtk_view *index,
                                    const struct mtk_view *in, struct mtk_queue *queue)
{
    struct mtk_rows rows = {};
    mt_status status = mtk_rows_of("scatter_add_rows", in, &rows);
    if (status != MT_OK || rows.count == 0)
        return status;
    return mtk_launch("scatter_add_rows", scatter_add_kernel, rows.count, THREADS, queue, mtk_device_view_of(table),
                      mtk_device_view_of(index), mtk_device_view_of(in), rows, in->shape[3]);
}
