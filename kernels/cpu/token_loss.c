/* Cross entropy of each row of logits, which its gradient replaces. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#include <math.h>

static int64_t tile_count(int64_t left)
{
    return left < MTK_TILE ? left : MTK_TILE;
}

static char *column_at(const struct mtk_view *logits, char *row, int64_t column)
{
    return row + column * (int64_t)mt_dtype_bytes(logits->dtype);
}

static double row_maximum(const struct mtk_view *logits, char *row)
{
    double tile[MTK_TILE], maximum = -INFINITY;
    for (int64_t c = 0; c < logits->shape[3]; c += MTK_TILE) {
        int64_t count = tile_count(logits->shape[3] - c);
        mtk_load(column_at(logits, row, c), logits->dtype, 1, count, tile);
        for (int64_t i = 0; i < count; i++)
            maximum = tile[i] > maximum ? tile[i] : maximum; /* a nan comes back with the sum */
    }
    return maximum;
}

/* ln of the sum of e^logits. */
static double row_log_sum(const struct mtk_view *logits, char *row)
{
    double tile[MTK_TILE], maximum = row_maximum(logits, row), sum = 0;
    for (int64_t c = 0; c < logits->shape[3]; c += MTK_TILE) {
        int64_t count = tile_count(logits->shape[3] - c);
        mtk_load(column_at(logits, row, c), logits->dtype, 1, count, tile);
        for (int64_t i = 0; i < count; i++)
            sum += exp(tile[i] - maximum);
    }
    return maximum + log(sum);
}

/* logits = scale * (e^(logits - log_sum) - (1 at target)). */
static void differentiate_row(double scale, const struct mtk_view *logits, char *row, double log_sum, int64_t target)
{
    double tile[MTK_TILE];
    for (int64_t c = 0; c < logits->shape[3]; c += MTK_TILE) {
        int64_t count = tile_count(logits->shape[3] - c);
        mtk_load(column_at(logits, row, c), logits->dtype, 1, count, tile);
        for (int64_t i = 0; i < count; i++)
            tile[i] = scale * (exp(tile[i] - log_sum) - (c + i == target ? 1 : 0));
        mtk_store(column_at(logits, row, c), logits->dtype, 1, count, tile);
    }
}

static void do_row(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                   const struct mtk_view *target, const int64_t *at)
{
    char *row = mtk_at(logits, at[0], at[1], at[2], 0);
    int64_t index = mtk_load_index(mtk_at(target, at[0], at[1], at[2], 0));
    double log_sum = row_log_sum(logits, row);
    mtk_store_one(mtk_at(loss, at[0], at[1], at[2], 0), loss->dtype,
                  log_sum - mtk_load_one(column_at(logits, row, index), logits->dtype));
    differentiate_row(scale, logits, row, log_sum, index);
}

mt_status mtk_cpu_cross_entropy(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                                const struct mtk_view *target, struct mtk_queue *queue)
{
    (void)queue;
    int64_t at[3];
    for (at[0] = 0; at[0] < logits->shape[0]; at[0]++)
        for (at[1] = 0; at[1] < logits->shape[1]; at[1]++)
            for (at[2] = 0; at[2] < logits->shape[2]; at[2]++)
                do_row(scale, logits, loss, target, at);
    return MT_OK;
}
