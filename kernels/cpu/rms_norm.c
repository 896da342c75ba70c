/* RMSNorm of contiguous rows, with the sum that it normalizes, and its gradients; formulas at kernels/kernels.h.
 *
 * A row is read as it was stored: where the forward pass writes the sum of two operands, it normalizes the rounded sum,
 * so that backward, which reads it, makes the very same output again. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#include <math.h>

static int64_t row_count(const struct mtk_view *view)
{
    return view->shape[0] * view->shape[1] * view->shape[2];
}

/* Element `column` of row `row` of a contiguous view with rows of `columns`. */
static char *place(const struct mtk_view *view, int64_t row, int64_t column, int64_t columns)
{
    return mtk_pointer(view->address) + (row * columns + column) * (int64_t)mt_dtype_bytes(view->dtype);
}

static int64_t tile_count(int64_t left)
{
    return left < MTK_TILE ? left : MTK_TILE;
}

static void load(const struct mtk_view *view, int64_t row, int64_t column, int64_t columns, double *tile)
{
    mtk_load(place(view, row, column, columns), view->dtype, 1, tile_count(columns - column), tile);
}

static void store(const struct mtk_view *view, int64_t row, int64_t column, int64_t columns, const double *tile)
{
    mtk_store(place(view, row, column, columns), view->dtype, 1, tile_count(columns - column), tile);
}

static void add_row(const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y, int64_t row,
                    int64_t columns)
{
    double left[MTK_TILE], right[MTK_TILE];
    for (int64_t c = 0; c < columns; c += MTK_TILE) {
        load(x, row, c, columns, left);
        load(y, row, c, columns, right);
        for (int64_t i = 0; i < tile_count(columns - c); i++)
            left[i] += right[i];
        store(sum, row, c, columns, left);
    }
}

/* 1 / sqrt(mean of x² + epsilon), rounded as it is kept. */
static double row_scale(double epsilon, const struct mtk_view *x, int64_t row, int64_t columns)
{
    double tile[MTK_TILE], squares = 0;
    for (int64_t c = 0; c < columns; c += MTK_TILE) {
        load(x, row, c, columns, tile);
        for (int64_t i = 0; i < tile_count(columns - c); i++)
            squares += tile[i] * tile[i];
    }
    double scale = 1 / sqrt(squares / (double)columns + epsilon);
    return x->dtype == MT_F64 ? scale : (double)(float)scale;
}

/* out = x * scale * weight. */
static void normalize_row(const struct mtk_view *out, const struct mtk_view *x, const struct mtk_view *weight,
                          double scale, int64_t row, int64_t columns)
{
    double tile[MTK_TILE], factor[MTK_TILE];
    for (int64_t c = 0; c < columns; c += MTK_TILE) {
        load(x, row, c, columns, tile);
        load(weight, 0, c, columns, factor);
        for (int64_t i = 0; i < tile_count(columns - c); i++)
            tile[i] *= scale * factor[i];
        store(out, row, c, columns, tile);
    }
}

mt_status mtk_cpu_rms_norm(double epsilon, const struct mtk_view *out, const struct mtk_view *rstd,
                           const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y,
                           const struct mtk_view *weight, struct mtk_queue *queue)
{
    (void)queue;
    const struct mtk_view *normalized = y != NULL ? sum : x;
    int64_t columns = x->shape[3];
    for (int64_t row = 0; row < row_count(x); row++) {
        if (y != NULL)
            add_row(sum, x, y, row, columns);
        double scale = row_scale(epsilon, normalized, row, columns);
        if (rstd != NULL)
            mtk_store_one(place(rstd, row, 0, 1), rstd->dtype, scale);
        normalize_row(out, normalized, weight, scale, row, columns);
    }
    return MT_OK;
}

/* The mean of grad * weight * x * scale over a row. */
static double row_projection(const struct mtk_norm_grad *call, double scale, int64_t row, int64_t columns)
{
    double grad[MTK_TILE], x[MTK_TILE], weight[MTK_TILE], sum = 0;
    for (int64_t c = 0; c < columns; c += MTK_TILE) {
        load(&call->grad, row, c, columns, grad);
        load(&call->x, row, c, columns, x);
        load(&call->weight, 0, c, columns, weight);
        for (int64_t i = 0; i < tile_count(columns - c); i++)
            sum += grad[i] * weight[i] * x[i] * scale;
    }
    return sum / (double)columns;
}

/* dx and its cast of one tile of a row. */
static void propagate(const struct mtk_norm_grad *call, double scale, double projection, int64_t row, int64_t c,
                      int64_t columns)
{
    double grad[MTK_TILE], x[MTK_TILE], weight[MTK_TILE], dx[MTK_TILE] = {0};
    load(&call->grad, row, c, columns, grad);
    load(&call->x, row, c, columns, x);
    load(&call->weight, 0, c, columns, weight);
    if (call->before.address != 0)
        load(&call->before, row, c, columns, dx);
    for (int64_t i = 0; i < tile_count(columns - c); i++)
        dx[i] += scale * (grad[i] * weight[i] - x[i] * scale * projection);
    store(&call->dx, row, c, columns, dx);
    if (call->cast.address != 0)
        store(&call->cast, row, c, columns, dx);
}

/* dweight of one tile of columns; rows from the first to the last. */
static void sum_weight_grad(const struct mtk_norm_grad *call, int64_t c, int64_t columns)
{
    double total[MTK_TILE] = {0}, grad[MTK_TILE], x[MTK_TILE];
    if (call->beta != 0)
        load(&call->dweight, 0, c, columns, total);
    for (int64_t i = 0; i < tile_count(columns - c) && call->beta != 0; i++)
        total[i] *= call->beta;
    for (int64_t row = 0; row < row_count(&call->x); row++) {
        double scale = mtk_load_one(place(&call->rstd, row, 0, 1), call->rstd.dtype);
        load(&call->grad, row, c, columns, grad);
        load(&call->x, row, c, columns, x);
        for (int64_t i = 0; i < tile_count(columns - c); i++)
            total[i] += grad[i] * x[i] * scale;
    }
    store(&call->dweight, 0, c, columns, total);
}

mt_status mtk_cpu_rms_norm_grad(const struct mtk_norm_grad *call, struct mtk_queue *queue)
{
    (void)queue;
    int64_t columns = call->x.shape[3];
    for (int64_t c = 0; c < columns; c += MTK_TILE)
        sum_weight_grad(call, c, columns);
    for (int64_t row = 0; row < row_count(&call->x); row++) {
        double scale = mtk_load_one(place(&call->rstd, row, 0, 1), call->rstd.dtype);
        double projection = row_projection(call, scale, row, columns);
        for (int64_t c = 0; c < columns; c += MTK_TILE)
            propagate(call, scale, projection, row, c, columns);
        normalize_row(&call->grad, &call->x, &call->weight, scale, row, columns);
    }
    return MT_OK;
}
