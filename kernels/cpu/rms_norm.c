/* RMSNorm of contiguous rows and its gradients; formulas in kernels/kernels.h.
 *
 * If the forward pass adds two operands, it normalizes their sum as stored, rounded. Backward reads that sum, and so
 * recomputes exactly the same output. */
#include "kernels/cpu/cpu_ops.h"

#include <math.h>

/* Loads the tile at `column` of a row of `columns` elements. */
static void load(const struct mtk_view *view, int64_t row, int64_t column, int64_t columns, double *tile)
{
    mtk_load(mtk_element(view, row * columns + column), view->dtype, 1, mtk_tile_count(columns - column), tile);
}

static void store(const struct mtk_view *view, int64_t row, int64_t column, int64_t columns, const double *tile)
{
    mtk_store(mtk_element(view, row * columns + column), view->dtype, 1, mtk_tile_count(columns - column), tile);
}

static void add_row(const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y, int64_t row,
                    int64_t columns)
{
    double left[MTK_TILE], right[MTK_TILE];
    for (int64_t c = 0; c < columns; c += MTK_TILE) {
        load(x, row, c, columns, left);
        load(y, row, c, columns, right);
        for (int64_t i = 0; i < mtk_tile_count(columns - c); i++)
            left[i] += right[i];
        store(sum, row, c, columns, left);
    }
}

/* Returns 1 / sqrt(mean of x² + epsilon), rounded as when stored. */
static double row_scale(double epsilon, const struct mtk_view *x, int64_t row, int64_t columns)
{
    double tile[MTK_TILE], squares = 0;
    for (int64_t c = 0; c < columns; c += MTK_TILE) {
        load(x, row, c, columns, tile);
        for (int64_t i = 0; i < mtk_tile_count(columns - c); i++)
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
        for (int64_t i = 0; i < mtk_tile_count(columns - c); i++)
            tile[i] *= scale * factor[i];
        store(out, row, c, columns, tile);
    }
}

mt_status mtk_cpu_rms_norm(double epsilon, const struct mtk_view *out, const struct mtk_view *rstd,
                           const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y,
                           const struct mtk_view *weight, struct mtk_queue *queue)
{
    (void)queue;
    assert((y == NULL) == (sum == NULL) && mtk_is_contiguous(x) && mtk_is_contiguous(out));
    assert(mtk_same_shape(out, x) && weight->shape[3] == x->shape[3]);
    const struct mtk_view *normalized = y != NULL ? sum : x;
    int64_t columns = x->shape[3];
    for (int64_t row = 0; row < mtk_row_count(x); row++) {
        if (y != NULL)
            add_row(sum, x, y, row, columns);
        double scale = row_scale(epsilon, normalized, row, columns);
        if (rstd != NULL)
            mtk_store_one(mtk_element(rstd, row), rstd->dtype, scale);
        normalize_row(out, normalized, weight, scale, row, columns);
    }
    return MT_OK;
}

/* Returns the mean of grad * weight * x * scale over a row. */
static double row_projection(const struct mtk_norm_grad *call, double scale, int64_t row, int64_t columns)
{
    double grad[MTK_TILE], x[MTK_TILE], weight[MTK_TILE], sum = 0;
    for (int64_t c = 0; c < columns; c += MTK_TILE) {
        load(&call->grad, row, c, columns, grad);
        load(&call->x, row, c, columns, x);
        load(&call->weight, 0, c, columns, weight);
        for (int64_t i = 0; i < mtk_tile_count(columns - c); i++)
            sum += grad[i] * weight[i] * x[i] * scale;
    }
    return sum / (double)columns;
}

/* Writes dx and its cast, one tile of a row. */
static void propagate(const struct mtk_norm_grad *call, double scale, double projection, int64_t row, int64_t c,
                      int64_t columns)
{
    double grad[MTK_TILE], x[MTK_TILE], weight[MTK_TILE], dx[MTK_TILE] = {0};
    load(&call->grad, row, c, columns, grad);
    load(&call->x, row, c, columns, x);
    load(&call->weight, 0, c, columns, weight);
    if (call->before.address != 0)
        load(&call->before, row, c, columns, dx);
    for (int64_t i = 0; i < mtk_tile_count(columns - c); i++)
        dx[i] += scale * (grad[i] * weight[i] - x[i] * scale * projection);
    store(&call->dx, row, c, columns, dx);
    if (call->cast.address != 0)
        store(&call->cast, row, c, columns, dx);
}

/* Writes dweight for one tile of columns, adding rows from first to last. */
static void sum_weight_grad(const struct mtk_norm_grad *call, int64_t c, int64_t columns)
{
    double total[MTK_TILE] = {0}, grad[MTK_TILE], x[MTK_TILE];
    if (call->beta != 0)
        load(&call->dweight, 0, c, columns, total);
    for (int64_t i = 0; i < mtk_tile_count(columns - c) && call->beta != 0; i++)
        total[i] *= call->beta;
    for (int64_t row = 0; row < mtk_row_count(&call->x); row++) {
        double scale = mtk_load_one(mtk_element(&call->rstd, row), call->rstd.dtype);
        load(&call->grad, row, c, columns, grad);
        load(&call->x, row, c, columns, x);
        for (int64_t i = 0; i < mtk_tile_count(columns - c); i++)
            total[i] += grad[i] * x[i] * scale;
    }
    store(&call->dweight, 0, c, columns, total);
}

mt_status mtk_cpu_rms_norm_grad(const struct mtk_norm_grad *call, struct mtk_queue *queue)
{
    (void)queue;
    int64_t columns = call->x.shape[3];
    assert(mtk_same_shape(&call->dx, &call->x) && mtk_same_shape(&call->grad, &call->x));
    assert(mtk_is_contiguous(&call->x) && mtk_is_contiguous(&call->grad) && mtk_is_contiguous(&call->dx));
    for (int64_t c = 0; c < columns; c += MTK_TILE)
        sum_weight_grad(call, c, columns);
    for (int64_t row = 0; row < mtk_row_count(&call->x); row++) {
        double scale = mtk_load_one(mtk_element(&call->rstd, row), call->rstd.dtype);
        double projection = row_projection(call, scale, row, columns);
        for (int64_t c = 0; c < columns; c += MTK_TILE)
            propagate(call, scale, projection, row, c, columns);
        normalize_row(&call->grad, &call->x, &call->weight, scale, row, columns);
    }
    return MT_OK;
}
