/* out = value. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

mt_status mtk_cpu_fill(double value, const struct mtk_view *out, struct mtk_queue *queue)
{
    (void)queue;
    double tile[MTK_TILE];
    for (int i = 0; i < MTK_TILE; i++)
        tile[i] = value;
    struct mtk_walk walk;
    mtk_walk_begin(&walk, 1, (const struct mtk_view *const[]){out});
    while (mtk_walk_next(&walk))
        mtk_walk_store(&walk, 0, tile);
    return MT_OK;
}
