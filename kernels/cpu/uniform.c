/* Element e, row-major, of a contiguous `out` = center + (2 unit(generator, e) - 1) * spread. */
#include "base/random.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

mt_status mtk_cpu_random(uint64_t generator, double center, double spread, const struct mtk_view *out,
                         struct mtk_queue *queue)
{
    (void)queue;
    double tile[MTK_TILE];
    uint64_t index = 0;
    struct mtk_walk walk;
    mtk_walk_begin(&walk, 1, (const struct mtk_view *const[]){out});
    while (mtk_walk_next(&walk)) {
        for (int64_t i = 0; i < walk.count; i++)
            tile[i] = center + (2 * mt_random_unit(generator, index++) - 1) * spread;
        mtk_walk_store(&walk, 0, tile);
    }
    return MT_OK;
}
