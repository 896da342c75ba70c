/* Softmax over the rows of the last dimension, and its gradient, in double. Of a row under `keys` there are the first
 * `length` elements; the others are 0 in the output and are not read.
 *
 *   softmax        out = e^(scale in - lse), lse = ln of the sum of e^(scale in)
 *   softmax_grad   out = scale w (grad - sum of grad w), w = kept, or e^(scale kept - lse)
 *
 * A row is read twice: it is turned into its maximum and sum first, rescaling the sum where the maximum grows, and into
 * the output then. Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#include <math.h>

/* Row (i, j, n) of a view, whose elements are read and written a tile at a time. */
struct row {
    char *at;
    mt_dtype dtype;
    int64_t stride; /* in elements */
};

static struct row row_of(const struct mtk_view *view, int64_t i, int64_t j, int64_t n)
{
    return (struct row){mtk_at(view, i, j, n, 0), view->dtype, view->stride[3]};
}

static char *row_at(const struct row *row, int64_t column)
{
    return row->at + column * row->stride * (int64_t)mt_dtype_bytes(row->dtype);
}

static void row_load(const struct row *row, int64_t column, int64_t count, double *tile)
{
    mtk_load(row_at(row, column), row->dtype, row->stride, count, tile);
}

static void row_store(const struct row *row, int64_t column, int64_t count, const double *tile)
{
    mtk_store(row_at(row, column), row->dtype, row->stride, count, tile);
}

static int64_t tile_count(int64_t column, int64_t end)
{
    return end - column < MTK_TILE ? end - column : MTK_TILE;
}

/* How many keys query number n sees. */
static int64_t visible(mtk_keys keys, int64_t n, int64_t length)
{
    return keys == MTK_KEYS_UP_TO_QUERY && n + 1 < length ? n + 1 : length;
}

static void clear_from(const struct row *row, int64_t column, int64_t end)
{
    static const double zeros[MTK_TILE] = {0};
    for (; column < end; column += MTK_TILE)
        row_store(row, column, tile_count(column, end), zeros);
}

/* The maximum and the sum of e^(x - maximum) so far, and one value more. A nan stays. */
static void take_in(double x, double *maximum, double *sum)
{
    if (x == -INFINITY)
        return;
    if (x > *maximum) {
        *sum *= exp(*maximum - x);
        *maximum = x;
    }
    *sum += exp(x - *maximum);
}

/* ln of the sum of e^(scale x). */
static double log_sum_exp(const struct row *in, double scale, int64_t count)
{
    double tile[MTK_TILE], maximum = -INFINITY, sum = 0;
    for (int64_t column = 0; column < count; column += MTK_TILE) {
        int64_t here = tile_count(column, count);
        row_load(in, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            take_in(scale * tile[c], &maximum, &sum);
    }
    return maximum + log(sum);
}

static void exponentials(const struct row *out, const struct row *in, double scale, double lse, int64_t count)
{
    double tile[MTK_TILE];
    for (int64_t column = 0; column < count; column += MTK_TILE) {
        int64_t here = tile_count(column, count);
        row_load(in, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            tile[c] = exp(scale * tile[c] - lse);
        row_store(out, column, here, tile);
    }
}

mt_status mtk_cpu_softmax(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *lse,
                          const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)queue;
    int64_t length = out->shape[3];
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++)
            for (int64_t n = 0; n < out->shape[2]; n++) {
                struct row from = row_of(in, i, j, n), to = row_of(out, i, j, n);
                int64_t count = visible(keys, n, length);
                double sum = log_sum_exp(&from, scale, count);
                exponentials(&to, &from, scale, sum, count);
                clear_from(&to, count, length);
                if (lse != NULL)
                    mtk_store_one(mtk_at(lse, i, j, n, 0), lse->dtype, sum);
            }
    return MT_OK;
}

/* What a gradient is made of: the row's weights are `kept` itself, or come of it. */
struct kept_row {
    struct row row;
    bool is_input;
    double scale, lse;
};

static void weights_load(const struct kept_row *kept, int64_t column, int64_t count, double *tile)
{
    row_load(&kept->row, column, count, tile);
    for (int64_t c = 0; kept->is_input && c < count; c++)
        tile[c] = exp(kept->scale * tile[c] - kept->lse);
}

static double weighted_sum(const struct kept_row *kept, const struct row *grad, int64_t count)
{
    double weights[MTK_TILE], tile[MTK_TILE], sum = 0;
    for (int64_t column = 0; column < count; column += MTK_TILE) {
        int64_t here = tile_count(column, count);
        weights_load(kept, column, here, weights);
        row_load(grad, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            sum += weights[c] * tile[c];
    }
    return sum;
}

static void gradients(const struct row *out, const struct kept_row *kept, const struct row *grad, double sum,
                      int64_t count)
{
    double weights[MTK_TILE], tile[MTK_TILE];
    for (int64_t column = 0; column < count; column += MTK_TILE) {
        int64_t here = tile_count(column, count);
        weights_load(kept, column, here, weights);
        row_load(grad, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            tile[c] = kept->scale * weights[c] * (tile[c] - sum);
        row_store(out, column, here, tile);
    }
}

mt_status mtk_cpu_softmax_grad(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *grad,
                               const struct mtk_view *kept, const struct mtk_view *lse, struct mtk_queue *queue)
{
    (void)queue;
    int64_t length = out->shape[3];
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++)
            for (int64_t n = 0; n < out->shape[2]; n++) {
                struct row to = row_of(out, i, j, n), from = row_of(grad, i, j, n);
                struct kept_row row = {row_of(kept, i, j, n), lse != NULL, scale,
                                       lse != NULL ? mtk_load_one(mtk_at(lse, i, j, n, 0), lse->dtype) : 0};
                int64_t count = visible(keys, n, length);
                gradients(&to, &row, &from, weighted_sum(&row, &from, count), count);
                clear_from(&to, count, length);
            }
    return MT_OK;
}
