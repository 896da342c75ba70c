/* RMSNorm of contiguous rows and its gradients; formulas in kernels/kernels.h.
 *
 * A block processes one row, a thread UNITS times VEC neighbours, which stay in registers, so that each row is read
 * once. In the gradient, a thread has the same columns in all rows of its block. So the sums for the gradient of the
 * weight stay in registers too, until the block writes them as one of at most MTK_NORM_PARTS parts. A second kernel
 * adds the parts in order. */
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

constexpr int MOST_THREADS = 640, SUM_COLUMNS = 32, SUM_GROUPS = 32;

/* A contiguous tensor; absent if it has no base. */
struct rows {
    char *base;
    int dtype;

    __device__ __forceinline__ char *at(int64_t element) const
    {
        return base + element * mtk_size_of(dtype);
    }
};

struct norm_call {
    struct rows out, rstd, sum, x, y, weight;
    uint32_t columns;
    double epsilon;
};

struct norm_grad_call {
    struct rows dx, before, cast, grad, x, rstd, weight, partial_sum;
    uint32_t columns, count;
};

/* A dtype that is checked at run time. Other kernels are compiled for known dtypes: WIDE is the residual stream's and
 * the sums', NARROW the dtype of the products' operands. */
constexpr int ANY = -1;

template <typename T, int VEC, int DTYPE>
__device__ __forceinline__ mtk_words<T, VEC> read(const struct rows &rows, int64_t element)
{
    const int dtype = DTYPE == ANY ? rows.dtype : DTYPE;
    return mtk_read<T, VEC>(rows.base + element * mtk_size_of(dtype), dtype);
}

template <typename T, int VEC, int DTYPE>
__device__ __forceinline__ void load(const struct rows &rows, int64_t element, T *value)
{
    mtk_decode<T, VEC>(read<T, VEC, DTYPE>(rows, element), DTYPE == ANY ? rows.dtype : DTYPE, value);
}

template <typename T, int VEC, int DTYPE>
__device__ __forceinline__ void store(const struct rows &rows, int64_t element, const T *value)
{
    const int dtype = DTYPE == ANY ? rows.dtype : DTYPE;
    mtk_write<T, VEC>(rows.base + element * mtk_size_of(dtype), dtype, mtk_encode<T, VEC>(value, dtype));
}

/* Rounds the values as `rows` would store them. */
template <typename T, int VEC, int DTYPE> __device__ __forceinline__ void round_as(const struct rows &rows, T *value)
{
    const int dtype = DTYPE == ANY ? rows.dtype : DTYPE;
    mtk_decode<T, VEC>(mtk_encode<T, VEC>(value, dtype), dtype, value);
}

/* Returns the first column of unit u of this thread. If it is not below `columns`, the thread has no unit u. */
template <int VEC> __device__ __forceinline__ uint32_t column_of(int u)
{
    return (u * blockDim.x + threadIdx.x) * VEC;
}

__device__ __forceinline__ float inverse_root(float x)
{
    return 1 / sqrtf(x);
}

__device__ __forceinline__ double inverse_root(double x)
{
    return 1 / sqrt(x);
}

/* sum = x + y (x without a y), rstd = 1 / sqrt(mean of sum² + epsilon), out = sum * rstd * weight. A block processes
 * the row with its number, a thread UNITS times VEC columns. Every element of out, and of sum and rstd if present, is
 * written. */
template <typename T, int VEC, int UNITS, int WIDE, int NARROW>
__global__ void __launch_bounds__(MOST_THREADS, UNITS == 1 ? 2 : 1) norm_kernel(const __grid_constant__ norm_call c)
{
    __shared__ T of_warp[MTK_WARP];
    T x[UNITS][VEC], squares = 0;
    int64_t first = (int64_t)blockIdx.x * c.columns;
    mtk_await_turn();
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        uint32_t column = column_of<VEC>(u);
        if (column >= c.columns)
            break;
        load<T, VEC, WIDE>(c.x, first + column, x[u]);
        if (c.y.base != nullptr) {
            T y[VEC];
            load<T, VEC, NARROW>(c.y, first + column, y);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                x[u][e] += y[e];
            round_as<T, VEC, WIDE>(c.sum, x[u]);
            store<T, VEC, WIDE>(c.sum, first + column, x[u]);
        }
#pragma unroll
        for (int e = 0; e < VEC; e++)
            squares += x[u][e] * x[u][e];
    }
    T scale = inverse_root(mtk_block_sum(squares, of_warp) / (T)c.columns + (T)c.epsilon);
    if (sizeof(T) == sizeof(double) && c.x.dtype != MT_F64) /* as rounded when stored */
        scale = (T)(float)scale;
    if (threadIdx.x == 0 && c.rstd.base != nullptr)
        mtk_store<T>(c.rstd.at(blockIdx.x), c.rstd.dtype, scale);
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        uint32_t column = column_of<VEC>(u);
        if (column >= c.columns)
            break;
        T weight[VEC];
        load<T, VEC, WIDE>(c.weight, column, weight);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            x[u][e] *= scale * weight[e];
        store<T, VEC, NARROW>(c.out, first + column, x[u]);
    }
}

/* A thread's part of a row. dx initially has the numbers to be added to it. */
template <typename T, int VEC, int UNITS> struct grad_row {
    T grad[UNITS][VEC], x[UNITS][VEC], dx[UNITS][VEC], scale;
};

/* Computes one row: dx, its cast, and out in place of the gradient. Adds grad * x * scale to `sums`. */
template <typename T, int VEC, int UNITS, int WIDE, int NARROW>
__device__ __forceinline__ void grad_of_row(const norm_grad_call &c, uint32_t row, grad_row<T, VEC, UNITS> &r,
                                            const T (&weight)[UNITS][VEC], T (&sums)[UNITS][VEC], T *of_warp)
{
    T projection = 0;
    int64_t first = (int64_t)row * c.columns;
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        if (column_of<VEC>(u) >= c.columns)
            break;
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            r.x[u][e] *= r.scale;
            sums[u][e] += r.grad[u][e] * r.x[u][e];
            projection += r.grad[u][e] * weight[u][e] * r.x[u][e];
        }
    }
    projection = mtk_block_sum(projection, of_warp) / (T)c.columns;
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        uint32_t column = column_of<VEC>(u);
        if (column >= c.columns)
            break;
#pragma unroll
        for (int e = 0; e < VEC; e++)
            r.dx[u][e] += r.scale * (r.grad[u][e] * weight[u][e] - r.x[u][e] * projection);
        store<T, VEC, WIDE>(c.dx, first + column, r.dx[u]);
        if (c.cast.base != nullptr)
            store<T, VEC, (WIDE == ANY ? ANY : (int)MT_BF16)>(c.cast, first + column, r.dx[u]);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            r.x[u][e] *= weight[u][e];
        store<T, VEC, NARROW>(c.grad, first + column, r.x[u]);
    }
}

/* Reads a row; dx only if it is added to. */
template <typename T, int VEC, int UNITS, int WIDE, int NARROW>
__device__ __forceinline__ void read_row(const norm_grad_call &c, uint32_t row, grad_row<T, VEC, UNITS> *out)
{
    int64_t first = (int64_t)row * c.columns;
    out->scale = mtk_load<T>(c.rstd.at(row), c.rstd.dtype);
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        uint32_t column = column_of<VEC>(u);
        if (column >= c.columns)
            break;
        load<T, VEC, NARROW>(c.grad, first + column, out->grad[u]);
        load<T, VEC, WIDE>(c.x, first + column, out->x[u]);
        if (c.before.base != nullptr)
            load<T, VEC, WIDE>(c.before, first + column, out->dx[u]);
    }
}

/* With u = x * rstd and g = grad * weight: dx = before + rstd (g - u * mean of g u), cast = dx, grad = u * weight. A
 * block processes every gridDim-th row from its number on, a thread UNITS times VEC columns, and writes the sum of grad
 * * u over its rows as one row of partial_sum. Nothing is added to. */
template <typename T, int VEC, int UNITS, int WIDE, int NARROW>
__global__ void __launch_bounds__(MOST_THREADS, UNITS == 1 ? 2 : 1)
    norm_grad_kernel(const __grid_constant__ norm_grad_call c)
{
    __shared__ T of_warp[2][MTK_WARP];
    T weight[UNITS][VEC], sums[UNITS][VEC] = {};
    mtk_await_turn();
#pragma unroll
    for (int u = 0; u < UNITS; u++)
        if (column_of<VEC>(u) < c.columns)
            load<T, VEC, WIDE>(c.weight, column_of<VEC>(u), weight[u]);
    int turn = 0;
    for (uint32_t row = blockIdx.x; row < c.count; row += gridDim.x, turn ^= 1) {
        grad_row<T, VEC, UNITS> r;
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int e = 0; e < VEC; e++)
                r.dx[u][e] = 0;
        read_row<T, VEC, UNITS, WIDE, NARROW>(c, row, &r);
        grad_of_row<T, VEC, UNITS, WIDE, NARROW>(c, row, r, weight, sums, of_warp[turn]);
    }
#pragma unroll
    for (int u = 0; u < UNITS; u++)
        if (column_of<VEC>(u) < c.columns)
            store<T, VEC, WIDE>(c.partial_sum, (int64_t)blockIdx.x * c.columns + column_of<VEC>(u), sums[u]);
}

/* ---- Narrow rows of fp32, with gradients in bf16 or fp32. A block has few bytes of such a row in flight. So it reads
 * the next row before it processes this one. */

constexpr int MOST_THREADS_AHEAD = 256, AHEAD_VEC = 4;

/* A thread's part of a row as it was read. */
struct row_words {
    mtk_words<float, AHEAD_VEC> grad, x, before;
    float scale;
};

template <int NARROW> __device__ __forceinline__ void read_words(const norm_grad_call &c, uint32_t row, row_words *out)
{
    uint32_t column = column_of<AHEAD_VEC>(0);
    int64_t element = (int64_t)row * c.columns + column;
    out->scale = mtk_load<float>(c.rstd.at(row), c.rstd.dtype);
    if (column >= c.columns)
        return;
    out->grad = read<float, AHEAD_VEC, NARROW>(c.grad, element);
    out->x = read<float, AHEAD_VEC, MT_F32>(c.x, element);
    if (c.before.base != nullptr)
        out->before = read<float, AHEAD_VEC, MT_F32>(c.before, element);
}

/* Decodes a thread's part of a row. */
template <int NARROW>
__device__ __forceinline__ grad_row<float, AHEAD_VEC, 1> row_of(const norm_grad_call &c, const row_words &words)
{
    grad_row<float, AHEAD_VEC, 1> r;
    r.scale = words.scale;
    mtk_decode<float, AHEAD_VEC>(words.grad, NARROW, r.grad[0]);
    mtk_decode<float, AHEAD_VEC>(words.x, MT_F32, r.x[0]);
    mtk_decode<float, AHEAD_VEC>(words.before, MT_F32, r.dx[0]);
#pragma unroll
    for (int e = 0; e < AHEAD_VEC; e++)
        r.dx[0][e] = c.before.base != nullptr ? r.dx[0][e] : 0;
    return r;
}

/* Computes the same as norm_grad_kernel, with AHEAD_VEC columns per thread. */
template <int NARROW>
__global__ void __launch_bounds__(MOST_THREADS, 2) norm_grad_ahead_kernel(const __grid_constant__ norm_grad_call c)
{
    __shared__ float of_warp[2][MTK_WARP];
    float weight[1][AHEAD_VEC], sums[1][AHEAD_VEC] = {};
    uint32_t column = column_of<AHEAD_VEC>(0);
    row_words words, next;
    mtk_await_turn();
    if (column < c.columns)
        load<float, AHEAD_VEC, MT_F32>(c.weight, column, weight[0]);
    int turn = 0;
    read_words<NARROW>(c, blockIdx.x, &next);
    for (uint32_t row = blockIdx.x; row < c.count; row += gridDim.x, turn ^= 1) {
        words = next;
        if (row + gridDim.x < c.count)
            read_words<NARROW>(c, row + gridDim.x, &next);
        grad_row<float, AHEAD_VEC, 1> r = row_of<NARROW>(c, words);
        grad_of_row<float, AHEAD_VEC, 1, MT_F32, NARROW>(c, row, r, weight, sums, of_warp[turn]);
    }
    if (column < c.columns)
        store<float, AHEAD_VEC, MT_F32>(c.partial_sum, (int64_t)blockIdx.x * c.columns + column, sums[0]);
}

/* dweight = beta * dweight + the sum of `parts` rows of partial_sum. A block has 32 columns. A group of its threads
 * sums every SUM_GROUPS-th part, and the first group adds the groups in order. dweight is added to if beta is not 0. */
template <typename T>
__global__ void __launch_bounds__(SUM_COLUMNS *SUM_GROUPS)
    sum_parts_kernel(struct rows dweight, struct rows partial_sum, uint32_t columns, uint32_t parts, T beta)
{
    __shared__ T of_group[SUM_GROUPS][SUM_COLUMNS];
    uint32_t column = blockIdx.x * SUM_COLUMNS + threadIdx.x;
    T sum = 0;
    mtk_await_turn();
#pragma unroll 8
    for (uint32_t part = threadIdx.y; part < parts && column < columns; part += SUM_GROUPS)
        sum += mtk_load<T>(partial_sum.at((int64_t)part * columns + column), partial_sum.dtype);
    of_group[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= columns)
        return;
    for (int group = 1; group < SUM_GROUPS; group++)
        sum += of_group[group][threadIdx.x];
    if (beta != 0)
        sum += beta * mtk_load<T>(dweight.at(column), dweight.dtype);
    mtk_store<T>(dweight.at(column), dweight.dtype, sum);
}

static struct rows rows_of(const struct mtk_view *view)
{
    if (view == nullptr || view->address == 0)
        return {nullptr, MT_F32};
    return {mtk_device_pointer(view->address), view->dtype};
}

/* The division of a row into units of `vec` neighbours, `units` per thread. */
struct cut {
    int vec, units;
    unsigned threads;
};

static mt_status cut_rows(const char *op, const struct mtk_view *x, const struct mtk_view *const *views, int count,
                          struct cut *out)
{
    constexpr int VEC = 4, MOST_UNITS = 8, MOST_SINGLES = 16;
    int64_t columns = x->shape[3];
    bool in_fours = columns % VEC == 0;
    for (int i = 0; i < count && in_fours; i++)
        in_fours = views[i] == nullptr || views[i]->address % (mt_addr)(VEC * mtk_size_of(views[i]->dtype)) == 0;
    int64_t pieces = in_fours ? columns / VEC : columns;
    int64_t units = mtk_ceiling(pieces, MOST_THREADS);
    if (units > (in_fours ? MOST_UNITS : MOST_SINGLES))
        return mt_fail(MT_FAILED, "%s: a row of %lld elements is wider than a block of threads holds", op,
                       (long long)columns);
    *out = {in_fours ? VEC : 1,
            units == 1 ? 1
            : in_fours ? MOST_UNITS
                       : MOST_SINGLES,
            (unsigned)(mtk_ceiling(mtk_ceiling(pieces, units), MTK_WARP) * MTK_WARP)};
    return MT_OK;
}

static mt_status row_count(const char *op, const struct mtk_view *x, uint32_t *out)
{
    int64_t count = x->shape[0] * x->shape[1] * x->shape[2];
    if (count > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "%s: %lld rows are more than a launch numbers", op, (long long)count);
    *out = (uint32_t)count;
    return MT_OK;
}

/* True if any view is computed in double. Absent views are ignored. */
static bool is_any_wide(const struct mtk_view *const *views, int count)
{
    bool is_wide = false;
    for (int i = 0; i < count; i++)
        is_wide |= views[i] != nullptr && views[i]->address != 0 && mtk_is_wide(views[i]->dtype);
    return is_wide;
}

/* The dtypes for which kernels are compiled in addition to ANY. */
enum known_dtypes { KNOWN_NONE, KNOWN_F32, KNOWN_BF16 };

static enum known_dtypes known_of(const struct mtk_view *const *wide, int wides, const struct mtk_view *const *narrow,
                                  int narrows)
{
    for (int i = 0; i < wides; i++)
        if (wide[i] != nullptr && wide[i]->address != 0 && wide[i]->dtype != MT_F32)
            return KNOWN_NONE;
    for (int i = 1; i < narrows; i++)
        if (narrow[i] != nullptr && narrow[i]->dtype != narrow[0]->dtype)
            return KNOWN_NONE;
    return narrow[0]->dtype == MT_F32 ? KNOWN_F32 : narrow[0]->dtype == MT_BF16 ? KNOWN_BF16 : KNOWN_NONE;
}

/* Calls `launch` with the types and sizes of a division as template arguments. */
template <template <typename, int, int, int, int> class LAUNCH, class CALL>
static mt_status launch_cut(const struct cut *cut, bool is_wide, enum known_dtypes known, const CALL &call,
                            unsigned blocks, struct mtk_queue *queue)
{
    unsigned threads = cut->threads;
    if (cut->vec == 1 && is_wide)
        return cut->units == 1 ? LAUNCH<double, 1, 1, ANY, ANY>::launch(call, blocks, threads, queue)
                               : LAUNCH<double, 1, 16, ANY, ANY>::launch(call, blocks, threads, queue);
    if (cut->vec == 1)
        return cut->units == 1 ? LAUNCH<float, 1, 1, ANY, ANY>::launch(call, blocks, threads, queue)
                               : LAUNCH<float, 1, 16, ANY, ANY>::launch(call, blocks, threads, queue);
    if (is_wide)
        return cut->units == 1 ? LAUNCH<double, 4, 1, ANY, ANY>::launch(call, blocks, threads, queue)
                               : LAUNCH<double, 4, 8, ANY, ANY>::launch(call, blocks, threads, queue);
    if (cut->units > 1)
        return LAUNCH<float, 4, 8, ANY, ANY>::launch(call, blocks, threads, queue);
    if (known == KNOWN_F32)
        return LAUNCH<float, 4, 1, MT_F32, MT_F32>::launch(call, blocks, threads, queue);
    if (known == KNOWN_BF16)
        return LAUNCH<float, 4, 1, MT_F32, MT_BF16>::launch(call, blocks, threads, queue);
    return LAUNCH<float, 4, 1, ANY, ANY>::launch(call, blocks, threads, queue);
}

template <typename T, int VEC, int UNITS, int WIDE, int NARROW> struct norm_launch {
    static mt_status launch(const norm_call &call, unsigned blocks, unsigned threads, struct mtk_queue *queue)
    {
        return mtk_launch("rms_norm", norm_kernel<T, VEC, UNITS, WIDE, NARROW>, blocks, threads, queue, call);
    }
};

template <typename T, int VEC, int UNITS, int WIDE, int NARROW> struct norm_grad_launch {
    static mt_status launch(const norm_grad_call &call, unsigned blocks, unsigned threads, struct mtk_queue *queue)
    {
        if constexpr (WIDE == MT_F32)
            if (threads <= MOST_THREADS_AHEAD)
                return mtk_launch("rms_norm_grad", norm_grad_ahead_kernel<NARROW>, blocks, threads, queue, call);
        return mtk_launch("rms_norm_grad", norm_grad_kernel<T, VEC, UNITS, WIDE, NARROW>, blocks, threads, queue, call);
    }
};

mt_status mtk_cuda_rms_norm(double epsilon, const struct mtk_view *out, const struct mtk_view *rstd,
                            const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y,
                            const struct mtk_view *weight, struct mtk_queue *queue)
{
    const struct mtk_view *const views[] = {out, sum, x, y, weight, rstd};
    struct cut cut = {};
    uint32_t count = 0;
    mt_status status = row_count("rms_norm", x, &count);
    if (status == MT_OK)
        status = cut_rows("rms_norm", x, views, 5, &cut);
    if (status != MT_OK || count == 0)
        return status;
    norm_call call = {rows_of(out), rows_of(rstd),   rows_of(sum),          rows_of(x),
                      rows_of(y),   rows_of(weight), (uint32_t)x->shape[3], epsilon};
    const struct mtk_view *const wide[] = {x, sum, weight}, *const narrow[] = {out, y};
    return launch_cut<norm_launch>(&cut, is_any_wide(views, 6), known_of(wide, 3, narrow, 2), call, count, queue);
}

static mt_status sum_parts(const struct mtk_norm_grad *grad, bool is_wide, uint32_t parts, struct mtk_queue *queue)
{
    uint32_t columns = (uint32_t)grad->x.shape[3];
    dim3 blocks((unsigned)mtk_ceiling(columns, SUM_COLUMNS)), threads(SUM_COLUMNS, SUM_GROUPS);
    if (is_wide)
        return mtk_launch("rms_norm_grad's sum", sum_parts_kernel<double>, blocks, threads, queue,
                          rows_of(&grad->dweight), rows_of(&grad->partial_sum), columns, parts, grad->beta);
    return mtk_launch("rms_norm_grad's sum", sum_parts_kernel<float>, blocks, threads, queue, rows_of(&grad->dweight),
                      rows_of(&grad->partial_sum), columns, parts, (float)grad->beta);
}

mt_status mtk_cuda_rms_norm_grad(const struct mtk_norm_grad *grad, struct mtk_queue *queue)
{
    const struct mtk_view *const views[] = {&grad->dx,     &grad->before,      &grad->cast, &grad->grad,   &grad->x,
                                            &grad->weight, &grad->partial_sum, &grad->rstd, &grad->dweight};
    struct cut cut = {};
    uint32_t count = 0;
    mt_status status = row_count("rms_norm_grad", &grad->x, &count);
    if (status == MT_OK)
        status = cut_rows("rms_norm_grad", &grad->x, views, 7, &cut);
    if (status != MT_OK || count == 0)
        return status;
    norm_grad_call call = {rows_of(&grad->dx),         rows_of(&grad->before),
                           rows_of(&grad->cast),       rows_of(&grad->grad),
                           rows_of(&grad->x),          rows_of(&grad->rstd),
                           rows_of(&grad->weight),     rows_of(&grad->partial_sum),
                           (uint32_t)grad->x.shape[3], count};
    uint32_t parts = count < (uint32_t)MTK_NORM_PARTS ? count : (uint32_t)MTK_NORM_PARTS;
    const struct mtk_view *const wide[] = {&grad->dx, &grad->before, &grad->x, &grad->weight, &grad->partial_sum};
    const struct mtk_view *const narrow[] = {&grad->grad};
    bool casts_usually = grad->cast.address == 0 || grad->cast.dtype == MT_BF16;
    enum known_dtypes known = casts_usually ? known_of(wide, 5, narrow, 1) : KNOWN_NONE;
    bool is_wide = is_any_wide(views, 9);
    status = launch_cut<norm_grad_launch>(&cut, is_wide, known, call, parts, queue);
    return status == MT_OK ? sum_parts(grad, is_wide, parts, queue) : status;
}
