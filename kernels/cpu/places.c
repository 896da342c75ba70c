/* Ops that depend on an element's position: rows and elements by index, the lower triangle, and rotary embedding.
 *
 *   gather_rows        out[i,j,n,c] = table[0,0,index[i,j,n,0],c]
 *   scatter_add_rows   table[0,0,index[i,j,n,0],c] += in[i,j,n,c]   rounded after each addition, in row-major order
 *   pick               out[i,j,n,0] = in[i,j,n,index[i,j,n,0]]
 *   place_add          out[i,j,n,index[i,j,n,0]] += in[i,j,n,0]
 *   lower_triangle     out[i,j,q,k] = k <= q ? in[i,j,q,k] : 0
 *   rotate             rotates the pairs of a row by angles proportional to the row's position
 *
 * Every element of `out` is written, except that scatter_add_rows and place_add change only the elements that they add
 * to. The last two may work in place. */
#include "kernels/cpu/cpu_ops.h"

#include <math.h>

/* Returns the index for row (i, j, n), which is below `end`. */
static int64_t index_at(const struct mtk_view *index, int64_t i, int64_t j, int64_t n, int64_t end)
{
    int64_t value = mtk_load_index(mtk_at(index, i, j, n, 0));
    assert(index->dtype == MT_I64 && value >= 0 && value < end);
    (void)end;
    return value;
}

/* ---- by index ---- */

static void copy_row(const struct mtk_row *to, const struct mtk_row *from, int64_t columns)
{
    double tile[MTK_TILE];
    MTK_EACH_TILE (c, count, columns) {
        mtk_row_load(from, c, count, tile);
        mtk_row_store(to, c, count, tile);
    }
}

static void add_row(const struct mtk_row *to, const struct mtk_row *from, int64_t columns)
{
    double total[MTK_TILE], tile[MTK_TILE];
    MTK_EACH_TILE (c, count, columns) {
        mtk_row_load(to, c, count, total);
        mtk_row_load(from, c, count, tile);
        for (int64_t i = 0; i < count; i++)
            total[i] += tile[i];
        mtk_row_store(to, c, count, total);
    }
}

mt_status mtk_cpu_gather_rows(const struct mtk_view *out, const struct mtk_view *table, const struct mtk_view *index,
                              struct mtk_queue *queue)
{
    (void)queue;
    assert(table->shape[3] == out->shape[3] && mtk_has_rows_of(index, out, 1));
    MTK_EACH_ROW (out) {
        struct mtk_row to = mtk_row_of(out, i, j, n);
        struct mtk_row from = mtk_row_of(table, 0, 0, index_at(index, i, j, n, table->shape[2]));
        copy_row(&to, &from, out->shape[3]);
    }
    return MT_OK;
}

mt_status mtk_cpu_scatter_add_rows(const struct mtk_view *table, const struct mtk_view *index,
                                   const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)queue;
    assert(table->shape[3] == in->shape[3] && mtk_has_rows_of(index, in, 1));
    MTK_EACH_ROW (in) {
        struct mtk_row to = mtk_row_of(table, 0, 0, index_at(index, i, j, n, table->shape[2]));
        struct mtk_row from = mtk_row_of(in, i, j, n);
        add_row(&to, &from, in->shape[3]);
    }
    return MT_OK;
}

mt_status mtk_cpu_pick(const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index,
                       struct mtk_queue *queue)
{
    (void)queue;
    assert(mtk_has_rows_of(out, in, 1) && mtk_same_shape(index, out));
    MTK_EACH_ROW (out) {
        int64_t c = index_at(index, i, j, n, in->shape[3]);
        mtk_store_one(mtk_at(out, i, j, n, 0), out->dtype, mtk_load_one(mtk_at(in, i, j, n, c), in->dtype));
    }
    return MT_OK;
}

mt_status mtk_cpu_place_add(const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in,
                            struct mtk_queue *queue)
{
    (void)queue;
    assert(mtk_has_rows_of(in, out, 1) && mtk_same_shape(index, in));
    MTK_EACH_ROW (in) {
        char *to = mtk_at(out, i, j, n, index_at(index, i, j, n, out->shape[3]));
        double sum = mtk_load_one(to, out->dtype) + mtk_load_one(mtk_at(in, i, j, n, 0), in->dtype);
        mtk_store_one(to, out->dtype, sum);
    }
    return MT_OK;
}

/* ---- the lower triangle ---- */

mt_status mtk_cpu_lower_triangle(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)queue;
    assert(mtk_same_shape(out, in));
    double tile[MTK_TILE];
    MTK_EACH_ROW (out) {
        struct mtk_row to = mtk_row_of(out, i, j, n), from = mtk_row_of(in, i, j, n);
        MTK_EACH_TILE (column, count, out->shape[3]) {
            mtk_row_load(&from, column, count, tile);
            for (int64_t k = 0; k < count; k++)
                tile[k] = column + k <= n ? tile[k] : 0;
            mtk_row_store(&to, column, count, tile);
        }
    }
    return MT_OK;
}

/* ---- rotary embedding ---- */

enum { PAIRS = MTK_TILE / 2 };

/* The rotations of pairs [first, first + count) at one position, computed once for all rows at that position. */
struct turns {
    int64_t first, count;
    double cosine[PAIRS], sine[PAIRS];
};

static void turns_compute(struct turns *turns, double theta, double position, int64_t dimension)
{
    assert(turns->count > 0 && turns->count <= PAIRS);
    for (int64_t p = 0; p < turns->count; p++) {
        double angle = position * pow(theta, -2.0 * (double)(turns->first + p) / (double)dimension);
        turns->cosine[p] = cos(angle);
        turns->sine[p] = sin(angle);
    }
}

/* Rotates these pairs of row (i, j, t). */
static void turn_row(const struct turns *turns, const struct mtk_view *out, const struct mtk_view *in, int64_t i,
                     int64_t j, int64_t t)
{
    double tile[MTK_TILE];
    int64_t column = 2 * turns->first, count = 2 * turns->count;
    struct mtk_row to = mtk_row_of(out, i, j, t), from = mtk_row_of(in, i, j, t);
    mtk_row_load(&from, column, count, tile);
    for (int64_t p = 0; p < turns->count; p++) {
        double a = tile[2 * p], b = tile[2 * p + 1];
        tile[2 * p] = a * turns->cosine[p] - b * turns->sine[p];
        tile[2 * p + 1] = a * turns->sine[p] + b * turns->cosine[p];
    }
    mtk_row_store(&to, column, count, tile);
}

mt_status mtk_cpu_rotate(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                         struct mtk_queue *queue)
{
    (void)queue;
    assert(mtk_same_shape(out, in) && in->shape[3] % 2 == 0 && (direction == 1 || direction == -1));
    int64_t pairs = in->shape[3] / 2;
    for (int64_t t = 0; t < in->shape[2]; t++)
        for (int64_t first = 0; first < pairs; first += PAIRS) {
            struct turns turns = {.first = first, .count = pairs - first < PAIRS ? pairs - first : PAIRS};
            turns_compute(&turns, theta, (double)(direction * t), in->shape[3]);
            for (int64_t i = 0; i < in->shape[0]; i++)
                for (int64_t j = 0; j < in->shape[1]; j++)
                    turn_row(&turns, out, in, i, j, t);
        }
    return MT_OK;
}
