/* One element of each row, by index.
 *
 *   pick        out[i,j,n,0] = in[i,j,n,index[i,j,n,0]]
 *   place_add   out[i,j,n,index[i,j,n,0]] += in[i,j,n,0]   nothing else of out is touched */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

static void pick_one(const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index, int64_t i,
                     int64_t j, int64_t n)
{
    int64_t c = mtk_load_index(mtk_at(index, i, j, n, 0));
    mtk_store_one(mtk_at(out, i, j, n, 0), out->dtype, mtk_load_one(mtk_at(in, i, j, n, c), in->dtype));
}

static void place_one(const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in, int64_t i,
                      int64_t j, int64_t n)
{
    char *to = mtk_at(out, i, j, n, mtk_load_index(mtk_at(index, i, j, n, 0)));
    double sum = mtk_load_one(to, out->dtype) + mtk_load_one(mtk_at(in, i, j, n, 0), in->dtype);
    mtk_store_one(to, out->dtype, sum);
}

mt_status mtk_cpu_pick(const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index,
                       struct mtk_queue *queue)
{
    (void)queue;
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++)
            for (int64_t n = 0; n < out->shape[2]; n++)
                pick_one(out, in, index, i, j, n);
    return MT_OK;
}

mt_status mtk_cpu_place_add(const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in,
                            struct mtk_queue *queue)
{
    (void)queue;
    for (int64_t i = 0; i < in->shape[0]; i++)
        for (int64_t j = 0; j < in->shape[1]; j++)
            for (int64_t n = 0; n < in->shape[2]; n++)
                place_one(out, index, in, i, j, n);
    return MT_OK;
}
