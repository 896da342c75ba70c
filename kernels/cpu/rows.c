/* Rows of a table by index: gather_rows reads them, scatter_add_rows adds to them.
 *
 *   gather_rows        out[i,j,n,c] = table[0,0,index[i,j,n,0],c]
 *   scatter_add_rows   table[0,0,index[i,j,n,0],c] += in[i,j,n,c]   rounded after each addition, in row-major order
 *
 * Everything of `out` is written; of the table of a scatter only the rows that are named are touched. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

static int64_t tile_count(int64_t left)
{
    return left < MTK_TILE ? left : MTK_TILE;
}

/* `to` (a row of `out`) = the row of `in` at `from`. */
static void copy_row(const struct mtk_view *out, char *to, const struct mtk_view *in, const char *from)
{
    double tile[MTK_TILE];
    int64_t to_step = out->stride[3] * (int64_t)mt_dtype_bytes(out->dtype);
    int64_t from_step = in->stride[3] * (int64_t)mt_dtype_bytes(in->dtype);
    for (int64_t c = 0; c < out->shape[3]; c += MTK_TILE) {
        int64_t count = tile_count(out->shape[3] - c);
        mtk_load(from + c * from_step, in->dtype, in->stride[3], count, tile);
        mtk_store(to + c * to_step, out->dtype, out->stride[3], count, tile);
    }
}

/* `to` (a row of `table`) += the row of `in` at `from`. */
static void add_row(const struct mtk_view *table, char *to, const struct mtk_view *in, const char *from)
{
    double total[MTK_TILE], tile[MTK_TILE];
    int64_t to_step = table->stride[3] * (int64_t)mt_dtype_bytes(table->dtype);
    int64_t from_step = in->stride[3] * (int64_t)mt_dtype_bytes(in->dtype);
    for (int64_t c = 0; c < in->shape[3]; c += MTK_TILE) {
        int64_t count = tile_count(in->shape[3] - c);
        mtk_load(to + c * to_step, table->dtype, table->stride[3], count, total);
        mtk_load(from + c * from_step, in->dtype, in->stride[3], count, tile);
        for (int64_t i = 0; i < count; i++)
            total[i] += tile[i];
        mtk_store(to + c * to_step, table->dtype, table->stride[3], count, total);
    }
}

mt_status mtk_cpu_gather_rows(const struct mtk_view *out, const struct mtk_view *table, const struct mtk_view *index,
                              struct mtk_queue *queue)
{
    (void)queue;
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++)
            for (int64_t n = 0; n < out->shape[2]; n++) {
                int64_t row = mtk_load_index(mtk_at(index, i, j, n, 0));
                copy_row(out, mtk_at(out, i, j, n, 0), table, mtk_at(table, 0, 0, row, 0));
            }
    return MT_OK;
}

mt_status mtk_cpu_scatter_add_rows(const struct mtk_view *table, const struct mtk_view *index,
                                   const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)queue;
    for (int64_t i = 0; i < in->shape[0]; i++)
        for (int64_t j = 0; j < in->shape[1]; j++)
            for (int64_t n = 0; n < in->shape[2]; n++) {
                int64_t row = mtk_load_index(mtk_at(index, i, j, n, 0));
                add_row(table, mtk_at(table, 0, 0, row, 0), in, mtk_at(in, i, j, n, 0));
            }
    return MT_OK;
}
