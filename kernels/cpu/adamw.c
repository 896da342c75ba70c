/* One step of AdamW over a list of parameters: each element of a parameter is read once, and written once. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#include <math.h>

/* A tile of the four tensors of a parameter. */
struct tile {
    double value[MTK_TILE], grad[MTK_TILE], mean[MTK_TILE], square[MTK_TILE];
};

static void update(const struct mtk_adamw *how, int64_t count, struct tile *t)
{
    for (int64_t i = 0; i < count; i++) {
        t->mean[i] += (1 - how->beta1) * (t->grad[i] - t->mean[i]);
        t->square[i] += (1 - how->beta2) * (t->grad[i] * t->grad[i] - t->square[i]);
        t->value[i] = how->keep * t->value[i] - how->step_size * t->mean[i] / (sqrt(t->square[i]) + how->epsilon);
    }
}

static void update_item(const struct mtk_adamw *how, const struct mtk_adamw_item *item)
{
    struct tile t;
    int64_t size = (int64_t)mt_dtype_bytes(how->dtype);
    for (int64_t first = 0; first < item->count; first += MTK_TILE) {
        int64_t count = item->count - first < MTK_TILE ? item->count - first : MTK_TILE;
        mtk_load(mtk_pointer(item->value) + first * size, how->dtype, 1, count, t.value);
        mtk_load(mtk_pointer(item->grad) + first * size, how->dtype, 1, count, t.grad);
        mtk_load(mtk_pointer(item->mean) + first * size, how->dtype, 1, count, t.mean);
        mtk_load(mtk_pointer(item->square) + first * size, how->dtype, 1, count, t.square);
        update(how, count, &t);
        mtk_store(mtk_pointer(item->value) + first * size, how->dtype, 1, count, t.value);
        mtk_store(mtk_pointer(item->mean) + first * size, how->dtype, 1, count, t.mean);
        mtk_store(mtk_pointer(item->square) + first * size, how->dtype, 1, count, t.square);
        if (item->cast == 0)
            continue;
        mtk_load(mtk_pointer(item->value) + first * size, how->dtype, 1, count, t.value); /* as it was rounded */
        mtk_store(mtk_pointer(item->cast) + first * (int64_t)mt_dtype_bytes(MT_BF16), MT_BF16, 1, count, t.value);
    }
}

mt_status mtk_cpu_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                        struct mtk_queue *queue)
{
    (void)queue;
    for (int i = 0; i < count; i++)
        update_item(how, &items[i]);
    return MT_OK;
}
