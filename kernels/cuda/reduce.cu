/* Sums, means and maxima over any set of dimensions. The maximum is nan if any operand is.
 *
 * The dimensions of `in` are sorted so that its strides increase, and merged if possible. Each is kept or reduced. If
 * the fastest is reduced, a warp or a block computes one element of `out`. If it is kept, a block computes 32
 * neighbours:
 *
 *   rows      one group of threads   ─▶ lanes stride along the reduced part ─▶ tree of partial results ─▶ 1 element
 *   columns   32 x 32 threads        ─▶ x: element of out, y: every 32nd reduced element ─▶ tree ─▶ 32 elements
 *
 * The order of summation depends only on shapes, so that equal inputs give equal sums. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

constexpr int WARP = 32, VEC = 4, ROW_THREADS = 256, MOST_ROW_THREADS = 1024, COLUMN_ROWS = 32;
constexpr int64_t WARP_LONGEST = 1024; /* elements per warp; longer rows use a block */

/* Some of the dimensions, numbered together. A number is divided by the sizes, fastest first. Strides in bytes. */
struct part {
    int rank;
    uint32_t count;
    struct mtk_divisor size[MT_MAX_DIMS];
    int64_t in_stride[MT_MAX_DIMS], out_stride[MT_MAX_DIMS];
};

struct reduction {
    char *out;
    const char *in;
    int out_dtype, in_dtype;
    double divisor; /* of the result: 1 except for a mean */
    struct part kept, reduced;
};

__device__ __forceinline__ void locate(const part &p, uint32_t n, int64_t *in_place, int64_t *out_place)
{
    *in_place = *out_place = 0;
#pragma unroll
    for (int d = 0; d < MT_MAX_DIMS; d++) {
        if (d >= p.rank)
            break;
        uint32_t above = d + 1 < p.rank ? p.size[d].divide(n) : 0;
        uint32_t here = n - above * p.size[d].divisor;
        *in_place += (int64_t)here * p.in_stride[d];
        *out_place += (int64_t)here * p.out_stride[d];
        n = above;
    }
}

template <typename T, bool IS_MAX> __device__ __forceinline__ T combine(T a, T b)
{
    if (IS_MAX)
        return b > a || b != b ? b : a;
    return a + b;
}

template <typename T, bool IS_MAX> __device__ __forceinline__ T start_value()
{
    return IS_MAX ? -(T)INFINITY : 0;
}

/* Returns the combination of all lanes' values to lane 0. */
template <typename T, bool IS_MAX> __device__ __forceinline__ T combine_warp(T value)
{
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value = combine<T, IS_MAX>(value, __shfl_down_sync(0xFFFFFFFFu, value, distance));
    return value;
}

/* Returns the combination of all threads' values to thread 0 of the block. */
template <typename T, bool IS_MAX> __device__ __forceinline__ T combine_block(T value)
{
    __shared__ T of_warp[WARP];
    value = combine_warp<T, IS_MAX>(value);
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = value;
    __syncthreads();
    if (threadIdx.x < WARP) {
        value = threadIdx.x < blockDim.x / WARP ? of_warp[threadIdx.x] : start_value<T, IS_MAX>();
        value = combine_warp<T, IS_MAX>(value);
    }
    return value;
}

/* Returns the part of thread `first` of `threads` in the row at `row`: every threads-th element, or group of V
 * neighbours. */
template <typename T, bool IS_MAX, int V>
__device__ __forceinline__ T reduce_lane(const reduction &r, const char *row, uint32_t first, uint32_t threads)
{
    T lane[V];
#pragma unroll
    for (int e = 0; e < V; e++)
        lane[e] = start_value<T, IS_MAX>();
#pragma unroll 4
    for (uint32_t n = first; n < r.reduced.count / V; n += threads) {
        int64_t place = (int64_t)n * V * mtk_size_of(r.in_dtype), ignored;
        if (V == 1)
            locate(r.reduced, n, &place, &ignored);
        T value[V];
        mtk_decode<T, V>(mtk_read<T, V>(row + place, r.in_dtype), r.in_dtype, value);
#pragma unroll
        for (int e = 0; e < V; e++)
            lane[e] = combine<T, IS_MAX>(lane[e], value[e]);
    }
#pragma unroll
    for (int e = 1; e < V; e++)
        lane[0] = combine<T, IS_MAX>(lane[0], lane[e]);
    return lane[0];
}

/* out[k] = reduction over r of in[k, r]. A warp, or with BY_BLOCK a block, computes one k; its threads share r. Every
 * element of out is written. */
template <typename T, bool IS_MAX, int V, bool BY_BLOCK>
__global__ void __launch_bounds__(BY_BLOCK ? MOST_ROW_THREADS : ROW_THREADS)
    reduce_rows_kernel(const __grid_constant__ reduction r)
{
    mtk_await_turn();
    uint32_t k = BY_BLOCK ? blockIdx.x : blockIdx.x * (ROW_THREADS / WARP) + threadIdx.x / WARP;
    if (k >= r.kept.count)
        return;
    int64_t in_place, out_place;
    locate(r.kept, k, &in_place, &out_place);
    T value = reduce_lane<T, IS_MAX, V>(r, r.in + in_place, BY_BLOCK ? threadIdx.x : threadIdx.x % WARP,
                                        BY_BLOCK ? blockDim.x : WARP);
    value = BY_BLOCK ? combine_block<T, IS_MAX>(value) : combine_warp<T, IS_MAX>(value);
    if (threadIdx.x % (BY_BLOCK ? MOST_ROW_THREADS : WARP) == 0)
        mtk_store<T>(r.out + out_place, r.out_dtype, value / (T)r.divisor);
}

/* out[k] = reduction over r of in[k, r], for adjacent k that are adjacent in memory. A block of 32 x COLUMN_ROWS
 * threads computes 32 of k, a thread every COLUMN_ROWS-th of r for one k. Every element of out is written. */
template <typename T, bool IS_MAX>
__global__ void __launch_bounds__(WARP *COLUMN_ROWS) reduce_columns_kernel(const __grid_constant__ reduction r)
{
    mtk_await_turn();
    __shared__ T of_row[COLUMN_ROWS][WARP];
    uint32_t k = blockIdx.x * WARP + threadIdx.x;
    bool is_there = k < r.kept.count;
    int64_t in_place, out_place, place, ignored;
    locate(r.kept, is_there ? k : 0, &in_place, &out_place);
    T value = start_value<T, IS_MAX>();
#pragma unroll 4
    for (uint32_t n = threadIdx.y; n < r.reduced.count; n += COLUMN_ROWS) {
        locate(r.reduced, n, &place, &ignored);
        value = combine<T, IS_MAX>(value, mtk_load<T>(r.in + in_place + place, r.in_dtype));
    }
    of_row[threadIdx.y][threadIdx.x] = value;
    for (int half = COLUMN_ROWS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half)
            of_row[threadIdx.y][threadIdx.x] =
                combine<T, IS_MAX>(of_row[threadIdx.y][threadIdx.x], of_row[threadIdx.y + half][threadIdx.x]);
    }
    if (threadIdx.y == 0 && is_there)
        mtk_store<T>(r.out + out_place, r.out_dtype, of_row[0][threadIdx.x] / (T)r.divisor);
}

/* Lists the dimensions in which `in` has more than one element, by increasing stride, with repeated ones last. Returns
 * their number. */
static int sorted_dimensions(const struct mtk_view *in, int *order)
{
    int count = 0;
    for (int d = MT_MAX_DIMS - 1; d >= 0; d--) {
        if (in->shape[d] == 1)
            continue;
        uint64_t stride = (uint64_t)in->stride[d] - 1;
        int place = count++;
        for (; place > 0 && (uint64_t)in->stride[order[place - 1]] - 1 > stride; place--)
            order[place] = order[place - 1];
        order[place] = d;
    }
    return count;
}

/* Appends dimension d, merged with the previous one if possible in both views. */
static void part_add(part *p, const struct mtk_view *in, const struct mtk_view *out, int d)
{
    int64_t in_stride = in->stride[d] * mtk_size_of(in->dtype), size = in->shape[d];
    int64_t out_stride = out->shape[d] == 1 ? 0 : out->stride[d] * mtk_size_of(out->dtype);
    int last = p->rank - 1;
    p->count *= (uint32_t)size;
    if (last >= 0 && in_stride == p->in_stride[last] * p->size[last].divisor &&
        out_stride == p->out_stride[last] * p->size[last].divisor) {
        p->size[last] = mtk_divisor_of(p->size[last].divisor * size);
        return;
    }
    p->size[p->rank] = mtk_divisor_of(size);
    p->in_stride[p->rank] = in_stride;
    p->out_stride[p->rank] = out_stride;
    p->rank++;
}

static int64_t elements(const struct mtk_view *view)
{
    return view->shape[0] * view->shape[1] * view->shape[2] * view->shape[3];
}

static reduction plan(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in)
{
    reduction r = {};
    int order[MT_MAX_DIMS];
    int dimensions = sorted_dimensions(in, order);
    r.out = mtk_device_pointer(out->address);
    r.in = mtk_device_pointer(in->address);
    r.out_dtype = out->dtype;
    r.in_dtype = in->dtype;
    r.kept.count = r.reduced.count = 1;
    for (int i = 0; i < dimensions; i++)
        part_add(out->shape[order[i]] == 1 ? &r.reduced : &r.kept, in, out, order[i]);
    r.divisor = op == MTK_MEAN ? (double)r.reduced.count : 1;
    return r;
}

/* True if each row is dense and can be read four elements at a time. */
static bool rows_in_fours(const reduction *r)
{
    int64_t size = mtk_size_of(r->in_dtype), four = VEC * size;
    bool is_dense = r->reduced.rank == 1 && r->reduced.in_stride[0] == size && r->reduced.count % VEC == 0;
    bool is_aligned = reinterpret_cast<uintptr_t>(r->in) % (uintptr_t)four == 0;
    for (int d = 0; d < r->kept.rank; d++)
        is_aligned = is_aligned && r->kept.in_stride[d] % four == 0;
    return is_dense && is_aligned;
}

template <typename T, bool IS_MAX, int V> static mt_status launch_rows(const reduction &r, struct mtk_queue *queue)
{
    int64_t rows = r.kept.count, threads = ROW_THREADS, blocks = mtk_ceiling(rows, ROW_THREADS / WARP);
    if (r.reduced.count <= WARP_LONGEST) {
        return mtk_launch("reduce_rows", reduce_rows_kernel<T, IS_MAX, V, false>, (unsigned)blocks, (unsigned)threads,
                          queue, r);
    }
    if (r.reduced.count >= MOST_ROW_THREADS * VEC)
        threads = MOST_ROW_THREADS;
    return mtk_launch("reduce_rows", reduce_rows_kernel<T, IS_MAX, V, true>, (unsigned)rows, (unsigned)threads, queue,
                      r);
}

template <typename T, bool IS_MAX> static mt_status launch(const reduction &r, struct mtk_queue *queue)
{
    bool by_columns = r.kept.rank > 0 && r.kept.count > 1 && r.kept.in_stride[0] == mtk_size_of(r.in_dtype);
    if (!by_columns)
        return rows_in_fours(&r) ? launch_rows<T, IS_MAX, VEC>(r, queue) : launch_rows<T, IS_MAX, 1>(r, queue);
    int64_t blocks = mtk_ceiling(r.kept.count, WARP);
    return mtk_launch("reduce_columns", reduce_columns_kernel<T, IS_MAX>, (unsigned)blocks, dim3(WARP, COLUMN_ROWS),
                      queue, r);
}

/* Halves the first kept dimension, if there are more elements than one launch can number. Returns false if there is
 * none. */
static bool halve(struct mtk_view *out, struct mtk_view *in, struct mtk_view *rest_out, struct mtk_view *rest_in)
{
    for (int d = 0; d < MT_MAX_DIMS; d++) {
        int64_t half = out->shape[d] / 2;
        if (half == 0)
            continue;
        rest_out->shape[d] = rest_in->shape[d] = out->shape[d] - half;
        out->shape[d] = in->shape[d] = half;
        rest_out->address += (mt_addr)(half * out->stride[d] * mtk_size_of(out->dtype));
        rest_in->address += (mt_addr)(half * in->stride[d] * mtk_size_of(in->dtype));
        return true;
    }
    return false;
}

mt_status mtk_cuda_reduce(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in,
                          struct mtk_queue *queue)
{
    if (elements(out) == 0)
        return MT_OK;
    if (elements(out) > MTK_MOST_UNITS) {
        struct mtk_view low_out = *out, low_in = *in, high_out = *out, high_in = *in;
        halve(&low_out, &low_in, &high_out, &high_in);
        mt_status status = mtk_cuda_reduce(op, &low_out, &low_in, queue);
        return status == MT_OK ? mtk_cuda_reduce(op, &high_out, &high_in, queue) : status;
    }
    if (elements(in) / elements(out) > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "reduce: %lld elements into one are more than a launch numbers",
                       (long long)(elements(in) / elements(out)));
    reduction r = plan(op, out, in);
    bool is_wide = mtk_is_wide(out->dtype) || mtk_is_wide(in->dtype);
    if (op == MTK_MAX)
        return is_wide ? launch<double, true>(r, queue) : launch<float, true>(r, queue);
    return is_wide ? launch<double, false>(r, queue) : launch<float, false>(r, queue);
}
