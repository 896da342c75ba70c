/* Elements in memory and their values: every op loads a tile of elements of any dtype into doubles, computes, and
 * stores the tile, rounding once.
 *
 *   view ──walk──▶ rows of equal stride ──▶ tiles of at most MTK_TILE elements ──load──▶ double[MTK_TILE]
 *
 * A double holds every value of every dtype but int64 beyond 2^53, which only a copy between equal dtypes keeps. */
#ifndef MTK_ELEMENT_H
#define MTK_ELEMENT_H

#include "kernels/kernels.h"

enum { MTK_TILE = 256, MTK_WALK_VIEWS = 4 };

static inline char *mtk_pointer(mt_addr address)
{
    return (char *)(uintptr_t)address;
}

/* Where element (i, j, k, l) of a view lies. */
static inline char *mtk_at(const struct mtk_view *view, int64_t i, int64_t j, int64_t k, int64_t l)
{
    int64_t number = i * view->stride[0] + j * view->stride[1] + k * view->stride[2] + l * view->stride[3];
    return mtk_pointer(view->address) + number * (int64_t)mt_dtype_bytes(view->dtype);
}

/* tile[i] = element number i * stride from `from`, for i < count <= MTK_TILE. */
void mtk_load(const char *from, mt_dtype dtype, int64_t stride, int64_t count, double *tile);

/* The reverse, rounding to the nearest value of dtype, ties to even (bf16 in one step, never by way of fp32). Integers
 * are cut towards 0 and kept within their range, nan is 0; a bool is 1 for what is not 0. */
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

/* The nearest value with the 10 bits of mantissa of tf32, halves away from 0, as the card's kernels make it. */
float mtk_round_to_tf32(float value);

/* The index at `from`, exactly. */
static inline int64_t mtk_load_index(const char *from)
{
    return *(const int64_t *)(const void *)from;
}

/* A way through views of one shape, tile by tile, in row-major order. Dimensions that all views lay out as one are
 * walked as one, so that contiguous views are one long row.
 * Invariant between calls of next: column + count <= length, and at[v] is where view v's elements [column, column +
 * count) of row number `row` begin. */
struct mtk_walk {
    int views;
    int64_t shape[MT_MAX_DIMS];                  /* merged */
    int64_t stride[MTK_WALK_VIEWS][MT_MAX_DIMS]; /* in elements */
    mt_dtype dtype[MTK_WALK_VIEWS];
    char *base[MTK_WALK_VIEWS];
    char *at[MTK_WALK_VIEWS];
    int64_t rows, row;
    int64_t length, column;
    int64_t count; /* elements of the current tile */
};

/* Prepares a walk through `views` views of the first one's shape; follow with mtk_walk_next for the first tile. */
void mtk_walk_begin(struct mtk_walk *walk, int views, const struct mtk_view *const *view);

/* Goes to the next tile; false after the last. */
bool mtk_walk_next(struct mtk_walk *walk);

/* Load and store the current tile of view number v. */
void mtk_walk_load(const struct mtk_walk *walk, int v, double *tile);
void mtk_walk_store(const struct mtk_walk *walk, int v, const double *tile);

#endif
