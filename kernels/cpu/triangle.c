/* out(i, j, q, k) = k <= q ? in(i, j, q, k) : 0. `out` may be the same view as `in`. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

/* Columns [column, column + count) of row (i, j, q). */
static void copy_tile(const struct mtk_view *out, const struct mtk_view *in, int64_t i, int64_t j, int64_t q,
                      int64_t column)
{
    double tile[MTK_TILE];
    int64_t left = out->shape[3] - column;
    int64_t count = left < MTK_TILE ? left : MTK_TILE;
    mtk_load(mtk_at(in, i, j, q, column), in->dtype, in->stride[3], count, tile);
    for (int64_t k = 0; k < count; k++)
        tile[k] = column + k <= q ? tile[k] : 0;
    mtk_store(mtk_at(out, i, j, q, column), out->dtype, out->stride[3], count, tile);
}

mt_status mtk_cpu_lower_triangle(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)queue;
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++)
            for (int64_t q = 0; q < out->shape[2]; q++)
                for (int64_t column = 0; column < out->shape[3]; column += MTK_TILE)
                    copy_tile(out, in, i, j, q, column);
    return MT_OK;
}
