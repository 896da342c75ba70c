/* Rows of a table by index: gather_rows reads them, scatter_add_rows adds to them.
 *
 *   gather_rows        out[i,j,n,c] = table[0,0,index[i,j,n,0],c]
 *   scatter_add_rows   table[0,0,index[i,j,n,0],c] += in[i,j,n,c]   rounded after each addition, in row-major order
 *
 * Every element of `out` is written. Only the table's rows that are in the index are added to. */
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/view.cuh"

constexpr int THREADS = 256;

__device__ __forceinline__ int64_t index_at(const mtk_device_view &index, const mtk_rows &rows, uint32_t row)
{
    int64_t i, j, n;
    rows.split(row, &i, &j, &n);
    return *reinterpret_cast<const int64_t *>(index.at(i, j, n, 0));
}

/* out[i,j,n,c] = table[0,0,index[i,j,n,0],c]. A block processes the row with its number, a thread every THREADS-th
 * column. Every element of out is written. */
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

/* ---- scatter_add_rows. A block has some columns of some rows of the table: the rows whose numbers leave a certain
 * remainder. So no two blocks add to the same element. It scans all indices, lists those of its rows in order, sorts
 * the list by row, and converts it to reads:
 *
 *   row 7 of the table | row 3 of in | row 90 of in | row 12 of the table | row 17 of in | …
 *
 * A thread issues many of them at once, and sums from one row of the table to the next. */

constexpr int ADD_BLOCKS = 512; /* in total: parts of columns times groups of rows */
constexpr int ADD_THREADS = 256, ADD_WARPS = ADD_THREADS / MTK_WARP;
constexpr int PASS = 32;                   /* indices that a thread scans at once: one bit each in 32 bits */
constexpr int ALL_READS = 2 * ADD_THREADS; /* a list has one entry per thread, and each may be the first of its row */
constexpr uint32_t EVERY = 0xFFFFFFFFu;

/* A dtype that is checked at run time. */
constexpr int ANY = -1;

/* The parameters of a launch. */
struct add_call {
    mtk_device_view table, index, in;
    mtk_rows rows;
    struct mtk_divisor groups; /* of rows of the table */
    int64_t columns;
};

/* Rows of the table, and the rows of `in` to add to them. */
struct entries {
    uint32_t row[ADD_THREADS], position[ADD_THREADS];
};

/* The work of a block, in shared memory. */
struct add_list {
    uint32_t matches[ADD_WARPS]; /* of each warp, in a pass */
    entries found, sorted;
    uint32_t is_first[ADD_WARPS];            /* in its row: bits of sorted entries */
    int64_t offset[ALL_READS];               /* of reads, from the beginning of their tensor */
    uint32_t is_table[ALL_READS / MTK_WARP]; /* bits of reads */
};

/* Scans PASS times 32 indices from `first` on. Lane k gets one bit for each of the 32 indices from 32 k on, set for
 * rows of this block. Returns the number of set bits of all lanes. */
__device__ __forceinline__ uint32_t match(const add_call &c, uint32_t first, uint32_t *bits)
{
    constexpr int AT_ONCE = 8;
    uint32_t count = 0, lane = threadIdx.x % MTK_WARP;
#pragma unroll 1
    for (uint32_t k = 0; k < PASS; k += AT_ONCE) {
        uint32_t row[AT_ONCE], at = first + k * MTK_WARP + lane;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            row[i] = (uint32_t)index_at(c.index, c.rows, min(at + i * MTK_WARP, c.rows.count - 1));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            bool is_mine = row[i] - c.groups.divide(row[i]) * c.groups.divisor == blockIdx.x;
            uint32_t found = __ballot_sync(EVERY, is_mine && at + i * MTK_WARP < c.rows.count);
            count += (uint32_t)__popc(found);
            *bits = lane == k + i ? found : *bits;
        }
    }
    return count;
}

/* Returns the bits of the lanes before this one. */
__device__ __forceinline__ uint32_t lanes_before()
{
    return (1u << threadIdx.x % MTK_WARP) - 1;
}

/* The matches of a pass: their bits, and their numbers in earlier warps and in total. */
struct add_pass {
    uint32_t first, bits, before, all;
};

/* Lists matches `done` to `done` + `count` - 1 of a pass, from entry `at` on. */
__device__ __forceinline__ void list_matches(add_list &list, const add_call &c, const add_pass &pass, uint32_t done,
                                             uint32_t count, uint32_t at)
{
    uint32_t lane = threadIdx.x % MTK_WARP, number = pass.before - done;
    for (uint32_t k = 0; k < PASS; k++) {
        uint32_t found = __shfl_sync(EVERY, pass.bits, k), position = pass.first + k * MTK_WARP + lane;
        uint32_t mine = number + (uint32_t)__popc(found & lanes_before());
        if ((found >> lane & 1) != 0 && mine < count) {
            list.found.row[at + mine] = (uint32_t)index_at(c.index, c.rows, position);
            list.found.position[at + mine] = position;
        }
        number += (uint32_t)__popc(found);
    }
}

/* Sorts the entries by row, keeping their order within a row. */
__device__ __forceinline__ void sort(add_list &list, uint32_t count)
{
    if (threadIdx.x >= count)
        return;
    uint32_t row = list.found.row[threadIdx.x], place = 0;
#pragma unroll 8
    for (uint32_t i = 0; i < count; i++)
        place += list.found.row[i] < row + (i < threadIdx.x ? 1 : 0);
    list.sorted.row[place] = row;
    list.sorted.position[place] = list.found.position[threadIdx.x];
}

/* Converts the sorted entries to reads. Returns their number. The list is padded to a multiple of 32 with reads that
 * are not used. */
__device__ __forceinline__ uint32_t list_reads(add_list &list, const add_call &c, uint32_t count)
{
    uint32_t n = threadIdx.x, lane = n % MTK_WARP, row = n < count ? list.sorted.row[n] : 0;
    bool is_first = n < count && (n == 0 || row != list.sorted.row[n - 1]);
    uint32_t bits = __ballot_sync(EVERY, is_first);
    if (lane == 0)
        list.is_first[n / MTK_WARP] = bits;
    if (n < ALL_READS / MTK_WARP)
        list.is_table[n] = 0;
    __syncthreads();
    uint32_t firsts = lane < ADD_WARPS ? (uint32_t)__popc(list.is_first[lane]) : 0;
    uint32_t before = mtk_warp_sum(lane < n / MTK_WARP ? firsts : 0), reads = count + mtk_warp_sum(firsts);
    uint32_t read = n + before + (uint32_t)__popc(bits & lanes_before());
    if (is_first) {
        list.offset[read] = row * c.table.stride[2];
        atomicOr(&list.is_table[read / MTK_WARP], 1u << read % MTK_WARP);
        read++;
    }
    if (n < count) {
        int64_t i, j, k;
        c.rows.split(list.sorted.position[n], &i, &j, &k);
        list.offset[read] = c.in.at(i, j, k, 0) - c.in.base;
    }
    if (reads + n < (reads + MTK_WARP - 1) / MTK_WARP * MTK_WARP)
        list.offset[reads + n] = 0;
    return reads;
}

/* Returns a sum as stored in the table. */
template <typename T, int DTYPE> __device__ __forceinline__ T rounded(T sum, int dtype)
{
    if constexpr (DTYPE == MT_F32 && sizeof(T) == sizeof(float))
        return sum;
    mtk_decode<T, 1>(mtk_encode<T, 1>(&sum, dtype), dtype, &sum);
    return sum;
}

/* Executes the reads for one column, DEPTH at once, and writes the sums. */
template <typename T, int DEPTH, int DTYPE>
__device__ __forceinline__ void add_column(const add_list &list, const add_call &c, uint32_t reads, int64_t column)
{
    static_assert(MTK_WARP % DEPTH == 0, "the bits of reads at once are in one word");
    constexpr uint32_t AT_ONCE = EVERY >> (MTK_WARP - DEPTH); /* bits */
    const int to = DTYPE == ANY ? c.table.dtype : DTYPE, from = DTYPE == ANY ? c.in.dtype : DTYPE;
    char *table = c.table.at(0, 0, 0, column);
    const char *in = c.in.at(0, 0, 0, column);
    uint32_t row = 0; /* the read of the row that is being added to */
    T sum = 0;
    for (uint32_t first = 0; first < reads; first += DEPTH) {
        T value[DEPTH];
        uint32_t is_table = list.is_table[first / MTK_WARP] >> first % MTK_WARP;
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            bool is_of_table = (is_table >> i & 1) != 0;
            value[i] = mtk_load<T>((is_of_table ? table : in) + list.offset[first + i], is_of_table ? to : from);
        }
        if ((is_table & AT_ONCE) == 0 && first + DEPTH <= reads) { /* as for a frequent index */
#pragma unroll
            for (int i = 0; i < DEPTH; i++)
                sum = rounded<T, DTYPE>(sum + value[i], to);
            continue;
        }
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            if (first + i >= reads)
                break;
            if ((is_table >> i & 1) == 0) {
                sum = rounded<T, DTYPE>(sum + value[i], to);
                continue;
            }
            if (first + i > 0)
                mtk_store<T>(table + list.offset[row], to, sum);
            row = first + i;
            sum = value[i];
        }
    }
    mtk_store<T>(table + list.offset[row], to, sum);
}

/* Adds the entries of the list, which is not empty. */
template <typename T, int DEPTH, int DTYPE>
__device__ __forceinline__ void add_entries(add_list &list, const add_call &c, uint32_t count)
{
    __syncthreads();
    sort(list, count);
    __syncthreads();
    uint32_t reads = list_reads(list, c, count);
    __syncthreads();
    int64_t column = (int64_t)blockIdx.y * ADD_THREADS + threadIdx.x;
    if (column < c.columns)
        add_column<T, DEPTH, DTYPE>(list, c, reads, column);
    __syncthreads();
}

/* Finds a pass's matches, from index `begin` on. */
__device__ __forceinline__ add_pass find(add_list &list, const add_call &c, uint32_t begin)
{
    uint32_t warp = threadIdx.x / MTK_WARP, lane = threadIdx.x % MTK_WARP;
    add_pass pass = {begin + warp * MTK_WARP * PASS, 0, 0, 0};
    uint32_t own = match(c, pass.first, &pass.bits);
    if (lane == 0)
        list.matches[warp] = own;
    __syncthreads();
    uint32_t matches = lane < ADD_WARPS ? list.matches[lane] : 0;
    pass.before = mtk_warp_sum(lane < warp ? matches : 0);
    pass.all = mtk_warp_sum(matches);
    __syncthreads();
    return pass;
}

/* table[0,0,index[i,j,n,0],c] += in[i,j,n,c]. A block has every gridDim.x-th row of the table and ADD_THREADS columns,
 * a thread one column. It is the only one to add to it, and adds in the order of the index. The table's rows that are
 * in the index are added to. */
template <typename T, int DEPTH, int DTYPE>
__global__ void __launch_bounds__(ADD_THREADS, 4) scatter_add_kernel(const __grid_constant__ add_call c)
{
    __shared__ add_list list;
    uint32_t listed = 0;
    mtk_await_turn();
    for (uint32_t begin = 0; begin < c.rows.count; begin += ADD_THREADS * PASS) {
        add_pass pass = find(list, c, begin);
        for (uint32_t done = 0; done < pass.all;) {
            uint32_t count = min(pass.all - done, ADD_THREADS - listed);
            list_matches(list, c, pass, done, count, listed);
            done += count;
            listed += count;
            if (listed < ADD_THREADS)
                continue;
            add_entries<T, DEPTH, DTYPE>(list, c, listed);
            listed = 0;
        }
    }
    if (listed > 0)
        add_entries<T, DEPTH, DTYPE>(list, c, listed);
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
    if (status != MT_OK || rows.count == 0 || in->shape[3] == 0)
        return status;
    int64_t table_rows = table->shape[2], columns = in->shape[3];
    if (table_rows > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "scatter_add_rows: a table of %lld rows has more than a launch numbers",
                       (long long)table_rows);
    int64_t parts = mtk_ceiling(columns, ADD_THREADS), groups = mtk_ceiling(ADD_BLOCKS, parts);
    groups = groups < table_rows ? groups : table_rows;
    add_call call = {mtk_device_view_of(table), mtk_device_view_of(index),
                     mtk_device_view_of(in),    rows,
                     mtk_divisor_of(groups),    columns};
    bool is_usual = table->dtype == MT_F32 && in->dtype == MT_F32;
    return mtk_launch("scatter_add_rows",
                      is_usual ? scatter_add_kernel<float, 16, MT_F32> : scatter_add_kernel<double, 4, ANY>,
                      dim3((unsigned)groups, (unsigned)parts), ADD_THREADS, queue, call);
}
