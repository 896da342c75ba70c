/* Softmax over the rows of the last dimension, its gradient, and cross entropy, in double. A query may see only the
 * first elements of a row: the others are 0 in the output and are not read.
 *
 *   softmax         out = e^(scale in - lse), lse = ln of the sum of e^(scale in)
 *   softmax_grad    out = scale w (grad - sum of grad w)
 *   cross_entropy   loss = lse - logits[target], logits = scale * (e^(logits - lse) - (1 at target))
 *
 * Softmax reads a row twice: first for its maximum and sum, which is rescaled when the maximum grows, then for the
 * output. Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. */
#include "kernels/cpu/cpu_ops.h"

#include <math.h>

/* Returns the number of keys that are visible to query number n. */
static int64_t visible(mtk_keys keys, int64_t n, int64_t length)
{
    return keys == MTK_KEYS_UP_TO_QUERY && n + 1 < length ? n + 1 : length;
}

static void clear_from(const struct mtk_row *row, int64_t column, int64_t end)
{
    static const double zeros[MTK_TILE] = {0};
    for (; column < end; column += MTK_TILE)
        mtk_row_store(row, column, mtk_tile_count(end - column), zeros);
}

/* Adds a value to the running maximum and the sum of e^(x - maximum). A nan makes the sum nan. */
static void add_value(double x, double *maximum, double *sum)
{
    if (x == -INFINITY)
        return;
    if (x > *maximum) {
        *sum *= exp(*maximum - x);
        *maximum = x;
    }
    *sum += exp(x - *maximum);
}

/* Returns ln of the sum of e^(scale x). */
static double log_sum_exp(const struct mtk_row *in, double scale, int64_t count)
{
    double tile[MTK_TILE], maximum = -INFINITY, sum = 0;
    MTK_EACH_TILE (column, here, count) {
        mtk_row_load(in, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            add_value(scale * tile[c], &maximum, &sum);
    }
    return maximum + log(sum);
}

static void exponentials(const struct mtk_row *out, const struct mtk_row *in, double scale, double lse, int64_t count)
{
    double tile[MTK_TILE];
    MTK_EACH_TILE (column, here, count) {
        mtk_row_load(in, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            tile[c] = exp(scale * tile[c] - lse);
        mtk_row_store(out, column, here, tile);
    }
}

mt_status mtk_cpu_softmax(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *in,
                          struct mtk_queue *queue)
{
    (void)queue;
    int64_t length = out->shape[3];
    assert(mtk_same_shape(out, in));
    MTK_EACH_ROW (out) {
        struct mtk_row from = mtk_row_of(in, i, j, n), to = mtk_row_of(out, i, j, n);
        int64_t count = visible(keys, n, length);
        exponentials(&to, &from, scale, log_sum_exp(&from, scale, count), count);
        clear_from(&to, count, length);
    }
    return MT_OK;
}

static double weighted_sum(const struct mtk_row *weights, const struct mtk_row *grad, int64_t count)
{
    double weight[MTK_TILE], tile[MTK_TILE], sum = 0;
    MTK_EACH_TILE (column, here, count) {
        mtk_row_load(weights, column, here, weight);
        mtk_row_load(grad, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            sum += weight[c] * tile[c];
    }
    return sum;
}

/* out = scale w (grad - sum). */
static void gradients(double scale, const struct mtk_row *out, const struct mtk_row *weights,
                      const struct mtk_row *grad, double sum, int64_t count)
{
    double weight[MTK_TILE], tile[MTK_TILE];
    MTK_EACH_TILE (column, here, count) {
        mtk_row_load(weights, column, here, weight);
        mtk_row_load(grad, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            tile[c] = scale * weight[c] * (tile[c] - sum);
        mtk_row_store(out, column, here, tile);
    }
}

mt_status mtk_cpu_softmax_grad(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *grad,
                               const struct mtk_view *weights, struct mtk_queue *queue)
{
    (void)queue;
    int64_t length = out->shape[3];
    assert(mtk_same_shape(out, grad) && mtk_same_shape(out, weights));
    MTK_EACH_ROW (out) {
        struct mtk_row to = mtk_row_of(out, i, j, n), from = mtk_row_of(grad, i, j, n),
                       row = mtk_row_of(weights, i, j, n);
        int64_t count = visible(keys, n, length);
        gradients(scale, &to, &row, &from, weighted_sum(&row, &from, count), count);
        clear_from(&to, count, length);
    }
    return MT_OK;
}

/* ---- cross entropy ---- */

/* Returns the maximum of a row, ignoring nan, which the sum has. */
static double row_maximum(const struct mtk_row *logits, int64_t length)
{
    double tile[MTK_TILE], maximum = -INFINITY;
    MTK_EACH_TILE (column, here, length) {
        mtk_row_load(logits, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            maximum = tile[c] > maximum ? tile[c] : maximum;
    }
    return maximum;
}

/* Returns ln of the sum of e^logits; finds the maximum first. */
static double row_log_sum(const struct mtk_row *logits, int64_t length)
{
    double tile[MTK_TILE], maximum = row_maximum(logits, length), sum = 0;
    MTK_EACH_TILE (column, here, length) {
        mtk_row_load(logits, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            sum += exp(tile[c] - maximum);
    }
    return maximum + log(sum);
}

/* logits = scale * (e^(logits - log_sum) - (1 at target)). */
static void differentiate_row(double scale, const struct mtk_row *logits, int64_t length, double log_sum,
                              int64_t target)
{
    double tile[MTK_TILE];
    MTK_EACH_TILE (column, here, length) {
        mtk_row_load(logits, column, here, tile);
        for (int64_t c = 0; c < here; c++)
            tile[c] = scale * (exp(tile[c] - log_sum) - (column + c == target ? 1 : 0));
        mtk_row_store(logits, column, here, tile);
    }
}

mt_status mtk_cpu_cross_entropy(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                                const struct mtk_view *target, struct mtk_queue *queue)
{
    (void)queue;
    int64_t length = logits->shape[3];
    assert(mtk_is_contiguous(logits) && mtk_has_rows_of(loss, logits, 1) && mtk_has_rows_of(target, logits, 1));
    MTK_EACH_ROW (logits) {
        struct mtk_row row = mtk_row_of(logits, i, j, n);
        int64_t index = mtk_load_index(mtk_at(target, i, j, n, 0));
        assert(index >= 0 && index < length);
        double log_sum = row_log_sum(&row, length);
        double chosen = mtk_load_one(mtk_row_at(&row, index), row.dtype);
        mtk_store_one(mtk_at(loss, i, j, n, 0), loss->dtype, log_sum - chosen);
        differentiate_row(scale, &row, length, log_sum, index);
    }
    return MT_OK;
}
