/* The ops of the CPU's table and their common functions; formulas and shapes are in kernels/kernels.h. Everything runs
 * immediately on the calling thread (products also on OpenBLAS's threads), so `queue` is ignored.
 *
 * Every op loads a tile of elements of any dtype into doubles, computes, and stores the tile, rounding once:
 *
 *   view ──walk──▶ rows of equal stride ──▶ tiles of at most MTK_TILE elements ──load──▶ double[MTK_TILE]
 *
 * A double represents all values of all dtypes except int64 beyond 2^53; only a copy between equal dtypes preserves
 * those. */
#pragma once

#include "kernels/kernels.h"

#include <assert.h>

#define X(op, parameters, views) mt_status mtk_cpu_##op parameters;
MTK_OPS(X)
#undef X

/* ---- views ---- */

static inline char *mtk_pointer(mt_addr address)
{
    return (char *)(uintptr_t)address;
}

/* Returns the address of element (i, j, k, l). */
static inline char *mtk_at(const struct mtk_view *view, int64_t i, int64_t j, int64_t k, int64_t l)
{
    int64_t number = i * view->stride[0] + j * view->stride[1] + k * view->stride[2] + l * view->stride[3];
    return mtk_pointer(view->address) + number * (int64_t)mt_dtype_bytes(view->dtype);
}

/* Returns the address of element number `element` of a contiguous view. */
static inline char *mtk_element(const struct mtk_view *view, int64_t element)
{
    return mtk_pointer(view->address) + element * (int64_t)mt_dtype_bytes(view->dtype);
}

/* Returns the number of rows, along the last dimension. */
static inline int64_t mtk_row_count(const struct mtk_view *view)
{
    return view->shape[0] * view->shape[1] * view->shape[2];
}

/* True if the elements are contiguous in row-major order. */
static inline bool mtk_is_contiguous(const struct mtk_view *view)
{
    int64_t expected = 1;
    for (int d = MT_MAX_DIMS - 1; d >= 0; expected *= view->shape[d--])
        if (view->shape[d] > 1 && view->stride[d] != expected)
            return false;
    return true;
}

/* True if the first three dimensions are equal, and the last is `columns` elements long in `view`. */
static inline bool mtk_has_rows_of(const struct mtk_view *view, const struct mtk_view *other, int64_t columns)
{
    return view->shape[0] == other->shape[0] && view->shape[1] == other->shape[1] &&
           view->shape[2] == other->shape[2] && view->shape[3] == columns;
}

static inline bool mtk_same_shape(const struct mtk_view *a, const struct mtk_view *b)
{
    return mtk_has_rows_of(a, b, b->shape[3]);
}

/* ---- tiles ---- */

enum { MTK_TILE = 256, MTK_WALK_VIEWS = 4 };

/* Returns the size of the next tile if `left` elements remain. */
static inline int64_t mtk_tile_count(int64_t left)
{
    assert(left > 0);
    return left < MTK_TILE ? left : MTK_TILE;
}

/* Iterates over a row of `length` elements tile by tile, each with `count` elements from `first` on. */
#define MTK_EACH_TILE(first, count, length)                                                                            \
    for (int64_t first = 0, count; first < (length) && (count = mtk_tile_count((length)-first)) > 0; first += MTK_TILE)

/* Sets tile[i] to element number i * stride from `from`, for i < count <= MTK_TILE. */
void mtk_load(const char *from, mt_dtype dtype, int64_t stride, int64_t count, double *tile);

/* Stores a tile, rounding to the nearest value of dtype, ties to even; bf16 in one step, never via fp32. For an
 * integer, the fraction is discarded, a value out of range becomes the nearest one in range, and nan becomes 0. fp8
 * also gets the nearest value in range. A bool is 1 if the value is not 0. */
void mtk_store(char *to, mt_dtype dtype, int64_t stride, int64_t count, const double *tile);

static inline double mtk_load_one(const char *from, mt_dtype dtype)
{
    double value;
    mtk_load(from, dtype, 1, 1, &value);
    return value;
}

static inline void mtk_store_one(char *to, mt_dtype dtype, double value)
{
    mtk_store(to, dtype, 1, 1, &value);
}

/* Returns the nearest value with tf32's 10 bits of mantissa, halves away from 0, like the kernels of a card. */
float mtk_round_to_tf32(float value);

/* Returns the index at `from`, exactly. */
static inline int64_t mtk_load_index(const char *from)
{
    return *(const int64_t *)(const void *)from;
}

/* ---- rows ---- */

/* Iterates over the rows (i, j, n) of a view, in row-major order. */
#define MTK_EACH_ROW(view)                                                                                             \
    for (int64_t i = 0; i < (view)->shape[0]; i++)                                                                     \
        for (int64_t j = 0; j < (view)->shape[1]; j++)                                                                 \
            for (int64_t n = 0; n < (view)->shape[2]; n++)

/* A row of a view along its last dimension, read and written a tile at a time. */
struct mtk_row {
    char *at;
    mt_dtype dtype;
    int64_t stride; /* in elements */
};

static inline struct mtk_row mtk_row_of(const struct mtk_view *view, int64_t i, int64_t j, int64_t n)
{
    return (struct mtk_row){mtk_at(view, i, j, n, 0), view->dtype, view->stride[3]};
}

static inline char *mtk_row_at(const struct mtk_row *row, int64_t column)
{
    return row->at + column * row->stride * (int64_t)mt_dtype_bytes(row->dtype);
}

static inline void mtk_row_load(const struct mtk_row *row, int64_t column, int64_t count, double *tile)
{
    mtk_load(mtk_row_at(row, column), row->dtype, row->stride, count, tile);
}

static inline void mtk_row_store(const struct mtk_row *row, int64_t column, int64_t count, const double *tile)
{
    mtk_store(mtk_row_at(row, column), row->dtype, row->stride, count, tile);
}

/* ---- walks ---- */

/* A walk through views of one shape, tile by tile, in row-major order. Dimensions that are contiguous in all views are
 * merged, so that contiguous views are one long row.
 * Invariant between calls of mtk_walk_next: column + count <= length, row < rows, and at[v] is the address of elements
 * [column, column + count) of row number `row` of view v. */
struct mtk_walk {
    int views;
    int64_t shape[MT_MAX_DIMS];                  /* merged */
    int64_t stride[MTK_WALK_VIEWS][MT_MAX_DIMS]; /* in elements */
    mt_dtype dtype[MTK_WALK_VIEWS];
    char *base[MTK_WALK_VIEWS];
    char *at[MTK_WALK_VIEWS];
    int64_t rows, row;
    int64_t length, column;
    int64_t count; /* elements in the current tile */
};

/* Begins a walk through `views` views, all with the shape of the first. mtk_walk_next advances to the first tile. */
void mtk_walk_begin(struct mtk_walk *walk, int views, const struct mtk_view *const *view);

/* Advances to the next tile. Returns false after the last one. */
bool mtk_walk_next(struct mtk_walk *walk);

/* Load and store the current tile of view number `v`. */
void mtk_walk_load(const struct mtk_walk *walk, int v, double *tile);
void mtk_walk_store(const struct mtk_walk *walk, int v, const double *tile);
