/* out = in, for views that are dense along different dimensions.
 *
 *        in: dense along x                     shared memory                  out: dense along y
 *   y ┌─┬─┬─┐                            ┌─────────────┐                  x ┌─┬─┬─┐
 *     ├─┼─┼─┤  TILE x TILE ──read rows──▶│ tile[y][x]  │──write columns──▶  ├─┼─┼─┤
 *     └─┴─┴─┘                            └─────────────┘                    └─┴─┴─┘
 *        x                                                                     y
 *
 * The grid has a block for each tile, including along the other dimensions. `out` and `in` do not overlap. */
#include "kernels/cuda/copy.h"

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/layout.h"

constexpr int TILE = 64, THREADS = 256, VEC = 4, SHORTEST = 16;

/* The parameters of a launch. Strides in bytes. */
struct transposition {
    char *to;
    const char *from;
    int to_dtype, from_dtype;
    bool to_in_fours, from_in_fours;      /* rows may be accessed four elements at a time */
    int64_t x_size, y_size;               /* `in` is dense along x, `out` along y */
    int64_t to_x_stride, from_y_stride;   /* of the dimension along which the view is not dense */
    struct mtk_divisor x_tiles, y_tiles;  /* tiles that cover x and y */
    struct mtk_divisor inner;             /* size of the faster of the two other dimensions */
    int64_t to_stride[2], from_stride[2]; /* of the two other dimensions */
};

/* Reads four neighbours from element `at` of a row of `size` elements, with 0 past its end. */
template <typename T>
__device__ __forceinline__ void read_four(const char *row, int dtype, bool in_fours, int64_t at, int64_t size, T *value)
{
    const char *from = row + at * mtk_size_of(dtype);
    if (in_fours && at < size) {
        mtk_decode<T, VEC>(mtk_read<T, VEC>(from, dtype), dtype, value);
        return;
    }
#pragma unroll
    for (int e = 0; e < VEC; e++)
        value[e] = at + e < size ? mtk_load<T>(from + e * mtk_size_of(dtype), dtype) : 0;
}

/* Writes four neighbours from element `at` on, as far as the row goes. */
template <typename T>
__device__ __forceinline__ void write_four(char *row, int dtype, bool in_fours, int64_t at, int64_t size,
                                           const T *value)
{
    char *to = row + at * mtk_size_of(dtype);
    if (in_fours && at < size) {
        mtk_write<T, VEC>(to, dtype, mtk_encode<T, VEC>(value, dtype));
        return;
    }
#pragma unroll
    for (int e = 0; e < VEC; e++)
        if (at + e < size)
            mtk_store<T>(to + e * mtk_size_of(dtype), dtype, value[e]);
}

/* out = in. A block copies one tile, a thread four neighbours in every sixteenth row. The tile is read along x and
 * written along y. Every element of out is written. */
template <typename T>
__global__ void __launch_bounds__(THREADS) transpose_kernel(const __grid_constant__ transposition c)
{
    mtk_await_turn();
    constexpr int LANES = TILE / VEC, ROWS = THREADS / LANES;
    __shared__ T tile[TILE][TILE + 1];
    uint32_t row_of_tiles = c.x_tiles.divide(blockIdx.x), other = c.y_tiles.divide(row_of_tiles);
    uint32_t outer = c.inner.divide(other), inner = other - outer * c.inner.divisor;
    int64_t x0 = (int64_t)(blockIdx.x - row_of_tiles * c.x_tiles.divisor) * TILE;
    int64_t y0 = (int64_t)(row_of_tiles - other * c.y_tiles.divisor) * TILE;
    const char *from = c.from + inner * c.from_stride[0] + outer * c.from_stride[1];
    char *to = c.to + inner * c.to_stride[0] + outer * c.to_stride[1];
    int lane = threadIdx.x % LANES * VEC, first = threadIdx.x / LANES;
    T value[TILE / ROWS][VEC] = {};
#pragma unroll
    for (int n = 0; n < TILE / ROWS; n++) {
        int64_t y = y0 + first + n * ROWS;
        if (y < c.y_size)
            read_four<T>(from + y * c.from_y_stride, c.from_dtype, c.from_in_fours, x0 + lane, c.x_size, value[n]);
    }
#pragma unroll
    for (int n = 0; n < TILE / ROWS; n++)
#pragma unroll
        for (int e = 0; e < VEC; e++)
            tile[first + n * ROWS][lane + e] = value[n][e];
    __syncthreads();
#pragma unroll
    for (int n = 0; n < TILE / ROWS; n++) {
        int row = first + n * ROWS;
        if (x0 + row >= c.x_size)
            break;
        T column[VEC];
#pragma unroll
        for (int e = 0; e < VEC; e++)
            column[e] = tile[lane + e][row];
        write_four<T>(to + (x0 + row) * c.to_x_stride, c.to_dtype, c.to_in_fours, y0 + lane, c.y_size, column);
    }
}

/* Returns the dimension along which `in` is dense and `out` is not; 0 if there is none. */
static int dense_dimension(const struct mtk_layout *layout)
{
    if (layout->stride[0][0] != 1 || layout->stride[1][0] <= 1 || layout->shape[0] < SHORTEST)
        return 0;
    for (int d = 1; d < layout->rank; d++)
        if (layout->stride[1][d] == 1 && layout->shape[d] >= SHORTEST)
            return d;
    return 0;
}

bool mtk_copy_transposes(const struct mtk_view *out, const struct mtk_view *in)
{
    const struct mtk_view *views[] = {out, in};
    struct mtk_layout layout;
    mtk_layout_plan(2, views, &layout);
    return layout.count > 0 && dense_dimension(&layout) != 0;
}

/* True if rows of view v, dense along `dimension`, begin and end at multiples of four elements. */
static bool rows_in_fours(const struct mtk_layout *layout, int v, const struct mtk_view *view, int dimension)
{
    bool aligned =
        view->address % (mt_addr)(VEC * mtk_size_of(view->dtype)) == 0 && layout->shape[dimension] % VEC == 0;
    for (int d = 0; d < layout->rank; d++)
        aligned = aligned && (d == dimension || layout->stride[v][d] % VEC == 0);
    return aligned;
}

static transposition transposition_of(const struct mtk_layout *layout, int x, const struct mtk_view *out,
                                      const struct mtk_view *in)
{
    const int64_t to_size = mtk_size_of(out->dtype), from_size = mtk_size_of(in->dtype);
    transposition c = {};
    c.to = mtk_device_pointer(out->address);
    c.from = mtk_device_pointer(in->address);
    c.to_dtype = out->dtype;
    c.from_dtype = in->dtype;
    c.to_in_fours = rows_in_fours(layout, 0, out, 0);
    c.from_in_fours = rows_in_fours(layout, 1, in, x);
    c.x_size = layout->shape[x];
    c.y_size = layout->shape[0];
    c.to_x_stride = layout->stride[0][x] * to_size;
    c.from_y_stride = layout->stride[1][0] * from_size;
    c.x_tiles = mtk_divisor_of(mtk_ceiling(c.x_size, TILE));
    c.y_tiles = mtk_divisor_of(mtk_ceiling(c.y_size, TILE));
    c.inner = mtk_divisor_of(1);
    for (int d = 1, other = 0; d < layout->rank; d++) {
        if (d == x)
            continue;
        c.to_stride[other] = layout->stride[0][d] * to_size;
        c.from_stride[other] = layout->stride[1][d] * from_size;
        if (other++ == 0)
            c.inner = mtk_divisor_of(layout->shape[d]);
    }
    return c;
}

mt_status mtk_copy_transposing(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    const struct mtk_view *views[] = {out, in};
    struct mtk_layout layout;
    mtk_layout_plan(2, views, &layout);
    int x = dense_dimension(&layout);
    transposition c = transposition_of(&layout, x, out, in);
    int64_t others = layout.count / (c.x_size * c.y_size);
    int64_t blocks = (int64_t)c.x_tiles.divisor * c.y_tiles.divisor * others;
    if (blocks > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "a transposing copy of %lld elements takes %lld tiles, more than a launch has",
                       (long long)layout.count, (long long)blocks);
    bool is_wide = mtk_is_wide(out->dtype) || mtk_is_wide(in->dtype);
    return mtk_launch("transpose", is_wide ? transpose_kernel<double> : transpose_kernel<float>, (unsigned)blocks,
                      THREADS, queue, c);
}
