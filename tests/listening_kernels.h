/* Kernels that compute nothing, and report each launch to a test: the views of the op, and the device's queue
 * of the launch. They are derived from MTK_OPS, so that new ops are included. */
#pragma once

#include "kernels/kernels.h"

/* The queue of a device for such kernels. `launch` receives the views of an op (NULL if absent) and a
 * number that differs between ops. It returns the outcome of the op. */
struct listening_queue {
    mt_status (*launch)(struct listening_queue *queue, uint64_t op, const struct mtk_view *const *views, int count);
    void *context;
    mt_stream stream;
};

/* The number of each op. */
enum listening_op {
#define X(op, parameters, views) LISTENING_##op,
    MTK_OPS(X)
#undef X
};

static mt_status listening_launch(struct mtk_queue *queue, uint64_t op, const struct mtk_view *const *views, int count)
{
    struct listening_queue *listening = (struct listening_queue *)queue;
    return listening->launch(listening, op, views, count);
}

#define LISTENING_LAUNCH(queue, op, ...)                                                                               \
    listening_launch(queue, op, (const struct mtk_view *const[]){__VA_ARGS__},                                         \
                     sizeof((const struct mtk_view *const[]){__VA_ARGS__}) / sizeof(struct mtk_view *))
#define LISTENING_LIST(...) __VA_ARGS__

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter" /* the scalars of ops */
#define X(op_name, parameters, views)                                                                                  \
    static mt_status listening_##op_name parameters                                                                    \
    {                                                                                                                  \
        return LISTENING_LAUNCH(queue, LISTENING_##op_name, LISTENING_LIST views);                                     \
    }
MTK_VIEW_OPS(X)
#undef X
#pragma GCC diagnostic pop

static struct mtk_view listening_row(mt_addr address, mt_dtype dtype, int64_t count)
{
    return (struct mtk_view){.address = address, .dtype = dtype, .shape = {1, 1, 1, count}, .stride = {0, 0, 0, 1}};
}

/* Launches once for each parameter. */
static mt_status listening_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                                 struct mtk_queue *queue)
{
    mt_status status = MT_OK;
    for (int i = 0; i < count && status == MT_OK; i++) {
        const struct mtk_adamw_item *item = &items[i];
        const struct mtk_view value = listening_row(item->value, how->dtype, item->count);
        const struct mtk_view grad = listening_row(item->grad, how->dtype, item->count);
        const mt_dtype form[] = {how->dtype, MT_BF16, MT_U8};
        const int64_t blocks = (item->count + MTK_MOMENTS_BLOCK - 1) / MTK_MOMENTS_BLOCK;
        const struct mtk_view mean = listening_row(item->mean, form[item->moments], item->count);
        const struct mtk_view square = listening_row(item->square, form[item->moments], item->count);
        const struct mtk_view scales = listening_row(item->scales, MT_F32, 2 * blocks);
        const struct mtk_view cast = listening_row(item->cast, MT_BF16, item->count);
        status = LISTENING_LAUNCH(queue, LISTENING_adamw, &value, &grad, &mean, &square,
                                  item->scales != 0 ? &scales : NULL, item->cast != 0 ? &cast : NULL);
    }
    return status;
}

#define X(op, parameters, views) .op = listening_##op,
static const struct mtk_table listening_kernels = {.name = "listening", MTK_OPS(X)};
#undef X
