/* Sums, means and maxima over any set of dimensions, in double.
 *
 * Dimensions of one element are moved to the front, so that the last has more than one element if any has. If the last
 * is reduced, each element of `out` is computed from whole rows of `in`. If it is kept, a tile of `out` is computed
 * from tiles of `in` element by element. In both cases `in` is read along its rows. The maximum is nan if any operand
 * is. */
#include "kernels/cpu/cpu_ops.h"

#include <math.h>

enum { LANES = 8 };

/* Invariant: kept[d] * reduced[d] is the size of in's dimension d, and one of the two is 1. */
struct reduction {
    mtk_reduce_op op;
    struct mtk_view out, in;
    int64_t kept[MT_MAX_DIMS], reduced[MT_MAX_DIMS];
    double divisor; /* of the result: 1 except for a mean */
};

static double larger(double a, double b)
{
    return b > a || b != b ? b : a;
}

static double start_value(mtk_reduce_op op)
{
    return op == MTK_MAX ? -INFINITY : 0;
}

static double combine(mtk_reduce_op op, double a, double b)
{
    return op == MTK_MAX ? larger(a, b) : a + b;
}

/* Moves dimensions in which `in` has one element to the front of both views, in the same order. */
static void drop_single_dimensions(struct mtk_view *out, struct mtk_view *in)
{
    struct mtk_view from_out = *out, from_in = *in;
    int next = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < MT_MAX_DIMS; d++) {
            if ((from_in.shape[d] == 1) != (pass == 0))
                continue;
            out->shape[next] = from_out.shape[d];
            out->stride[next] = from_out.stride[d];
            in->shape[next] = from_in.shape[d];
            in->stride[next] = from_in.stride[d];
            next++;
        }
}

static struct reduction plan(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in)
{
    struct reduction r = {.op = op, .out = *out, .in = *in, .divisor = 1};
    drop_single_dimensions(&r.out, &r.in);
    for (int d = 0; d < MT_MAX_DIMS; d++) {
        bool is_reduced = r.out.shape[d] == 1;
        r.kept[d] = is_reduced ? 1 : r.in.shape[d];
        r.reduced[d] = is_reduced ? r.in.shape[d] : 1;
        assert(is_reduced || r.out.shape[d] == r.in.shape[d]);
        if (op == MTK_MEAN)
            r.divisor *= (double)r.reduced[d];
    }
    return r;
}

static int64_t row_count(const int64_t *shape)
{
    return shape[0] * shape[1] * shape[2];
}

/* Returns the address of row number `row` of `shape`, counted along its first three dimensions, in the part of `view`
 * at `base`. */
static char *row_at(const struct mtk_view *view, const int64_t *shape, int64_t row, char *base)
{
    int64_t k = row % shape[2], above = row / shape[2];
    int64_t number = above / shape[1] * view->stride[0] + above % shape[1] * view->stride[1] + k * view->stride[2];
    return base + number * (int64_t)mt_dtype_bytes(view->dtype);
}

static char *column_at(const struct mtk_view *view, int64_t column, char *row)
{
    return row + column * view->stride[3] * (int64_t)mt_dtype_bytes(view->dtype);
}

/* Reduces tile[i] into lane[i % LANES]. The tile is padded with start values, so that all lanes have equally many. */
static void take_lanes(mtk_reduce_op op, int64_t count, double *restrict tile, double *restrict lane)
{
    assert(count <= MTK_TILE && MTK_TILE % LANES == 0);
    for (; count % LANES != 0; count++)
        tile[count] = start_value(op);
    for (int64_t i = 0; i < count; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = combine(op, lane[l], tile[i + l]);
}

/* Returns one element of `out`; its part of `in` begins at `base`. The last dimension is reduced. */
static double reduce_rows(const struct reduction *r, char *base)
{
    double tile[MTK_TILE], lane[LANES];
    for (int l = 0; l < LANES; l++)
        lane[l] = start_value(r->op);
    for (int64_t row = 0; row < row_count(r->reduced); row++) {
        char *from = row_at(&r->in, r->reduced, row, base);
        MTK_EACH_TILE (column, count, r->reduced[3]) {
            mtk_load(column_at(&r->in, column, from), r->in.dtype, r->in.stride[3], count, tile);
            take_lanes(r->op, count, tile, lane);
        }
    }
    for (int l = 1; l < LANES; l++)
        lane[0] = combine(r->op, lane[0], lane[l]);
    return lane[0] / r->divisor;
}

/* Computes `count` elements of a row of `out`; their part of `in` begins at `base`. The last dimension is kept. */
static void reduce_columns(const struct reduction *r, char *base, int64_t count, double *restrict total)
{
    double tile[MTK_TILE];
    for (int64_t i = 0; i < count; i++)
        total[i] = start_value(r->op);
    for (int64_t row = 0; row < row_count(r->reduced); row++) {
        mtk_load(row_at(&r->in, r->reduced, row, base), r->in.dtype, r->in.stride[3], count, tile);
        for (int64_t i = 0; i < count; i++)
            total[i] = combine(r->op, total[i], tile[i]);
    }
    for (int64_t i = 0; i < count; i++)
        total[i] /= r->divisor;
}

/* Computes one row of `out` at `to`; its part of `in` begins at `from`. */
static void reduce_into_row(const struct reduction *r, char *to, char *from)
{
    if (r->out.shape[3] == 1) {
        mtk_store_one(to, r->out.dtype, reduce_rows(r, from));
        return;
    }
    double total[MTK_TILE];
    MTK_EACH_TILE (column, count, r->kept[3]) {
        reduce_columns(r, column_at(&r->in, column, from), count, total);
        mtk_store(column_at(&r->out, column, to), r->out.dtype, r->out.stride[3], count, total);
    }
}

mt_status mtk_cpu_reduce(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in,
                         struct mtk_queue *queue)
{
    (void)queue;
    struct reduction r = plan(op, out, in);
    for (int64_t row = 0; row < row_count(r.kept); row++)
        reduce_into_row(&r, row_at(&r.out, r.kept, row, mtk_pointer(r.out.address)),
                        row_at(&r.in, r.kept, row, mtk_pointer(r.in.address)));
    return MT_OK;
}
