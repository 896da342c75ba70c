/* Kernels that compute nothing, and tell somebody of each launch: what they were called with, and on which of a
 * device's queues. */
#ifndef MT_TESTS_LISTENING_KERNELS_H
#define MT_TESTS_LISTENING_KERNELS_H

#include "kernels/kernels.h"

/* What the device gives such kernels as their queue. `launch` is told the views of an op, of which NULL are not
 * there, and a number that is another for another op; what it returns is the op's outcome. */
struct listening_queue {
    mt_status (*launch)(struct listening_queue *queue, uint64_t op, const struct mtk_view *const *views, int count);
    void *context;
    mt_stream stream;
};

static mt_status listening_launch(struct mtk_queue *queue, uint64_t op, const struct mtk_view *const *views, int count)
{
    struct listening_queue *listening = (struct listening_queue *)queue;
    return listening->launch(listening, op, views, count);
}

/* Launches views, numbered by the line of the op that does. */
#define LISTENING_LAUNCH(queue, ...)                                                                                   \
    listening_launch(queue, __LINE__, (const struct mtk_view *const[]){__VA_ARGS__},                                   \
                     sizeof((const struct mtk_view *const[]){__VA_ARGS__}) / sizeof(struct mtk_view *))

static struct mtk_view listening_row(mt_addr address, mt_dtype dtype, int64_t count)
{
    return (struct mtk_view){.address = address, .dtype = dtype, .shape = {1, 1, 1, count}, .stride = {0, 0, 0, 1}};
}

static mt_status listening_fill(double value, const struct mtk_view *out, struct mtk_queue *queue)
{
    (void)value;
    return LISTENING_LAUNCH(queue, out);
}

static mt_status listening_unary(mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in,
                                 struct mtk_queue *queue)
{
    (void)op;
    (void)s;
    return LISTENING_LAUNCH(queue, out, in);
}

static mt_status listening_binary(mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a,
                                  const struct mtk_view *b, struct mtk_queue *queue)
{
    (void)op;
    (void)s;
    return LISTENING_LAUNCH(queue, out, a, b);
}

static mt_status listening_ternary(mtk_ternary_op op, double s, double t, const struct mtk_view *out,
                                   const struct mtk_view *a, const struct mtk_view *b, const struct mtk_view *c,
                                   struct mtk_queue *queue)
{
    (void)op;
    (void)s;
    (void)t;
    return LISTENING_LAUNCH(queue, out, a, b, c);
}

static mt_status listening_reduce(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in,
                                  struct mtk_queue *queue)
{
    (void)op;
    return LISTENING_LAUNCH(queue, out, in);
}

static mt_status listening_two(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    return LISTENING_LAUNCH(queue, out, in);
}

static mt_status listening_three(const struct mtk_view *out, const struct mtk_view *a, const struct mtk_view *b,
                                 struct mtk_queue *queue)
{
    return LISTENING_LAUNCH(queue, out, a, b);
}

static mt_status listening_matmul(const struct mtk_product *product, const struct mtk_view *out,
                                  const struct mtk_view *a, const struct mtk_view *b, mt_addr workspace,
                                  uint64_t workspace_bytes, struct mtk_queue *queue)
{
    const struct mtk_view place = listening_row(workspace, MT_U8, (int64_t)workspace_bytes);
    (void)product;
    return LISTENING_LAUNCH(queue, out, a, b, &place);
}

static mt_status listening_rotate(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                                  struct mtk_queue *queue)
{
    (void)theta;
    (void)direction;
    return LISTENING_LAUNCH(queue, out, in);
}

static mt_status listening_softmax(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *lse,
                                   const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)scale;
    (void)keys;
    return LISTENING_LAUNCH(queue, out, lse, in);
}

static mt_status listening_softmax_grad(double scale, mtk_keys keys, const struct mtk_view *out,
                                        const struct mtk_view *grad, const struct mtk_view *kept,
                                        const struct mtk_view *lse, struct mtk_queue *queue)
{
    (void)scale;
    (void)keys;
    return LISTENING_LAUNCH(queue, out, grad, kept, lse);
}

static mt_status listening_attention(double scale, mtk_math math, const struct mtk_view *out,
                                     const struct mtk_view *lse, const struct mtk_view *q, const struct mtk_view *k,
                                     const struct mtk_view *v, struct mtk_queue *queue)
{
    (void)scale;
    (void)math;
    return LISTENING_LAUNCH(queue, out, lse, q, k, v);
}

static mt_status listening_attention_grad(const struct mtk_attention_grad *call, struct mtk_queue *queue)
{
    return LISTENING_LAUNCH(queue, &call->dq, &call->dk, &call->dv, &call->delta, &call->grad, &call->q, &call->k,
                            &call->v, &call->out, &call->lse);
}

static mt_status listening_rms_norm(double epsilon, const struct mtk_view *out, const struct mtk_view *rstd,
                                    const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y,
                                    const struct mtk_view *weight, struct mtk_queue *queue)
{
    (void)epsilon;
    return LISTENING_LAUNCH(queue, out, rstd, sum, x, y, weight);
}

static mt_status listening_rms_norm_grad(const struct mtk_norm_grad *call, struct mtk_queue *queue)
{
    return LISTENING_LAUNCH(queue, &call->dx, &call->before, &call->cast, &call->grad, &call->dweight, &call->x,
                            &call->rstd, &call->weight, &call->partial_sum);
}

static mt_status listening_cross_entropy(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                                         const struct mtk_view *target, struct mtk_queue *queue)
{
    (void)scale;
    return LISTENING_LAUNCH(queue, logits, loss, target);
}

/* One parameter after the other, as a launch each. */
static mt_status listening_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                                 struct mtk_queue *queue)
{
    mt_status status = MT_OK;
    for (int i = 0; i < count && status == MT_OK; i++) {
        const struct mtk_adamw_item *item = &items[i];
        const struct mtk_view value = listening_row(item->value, how->dtype, item->count);
        const struct mtk_view grad = listening_row(item->grad, how->dtype, item->count);
        const struct mtk_view mean = listening_row(item->mean, how->dtype, item->count);
        const struct mtk_view square = listening_row(item->square, how->dtype, item->count);
        const struct mtk_view cast = listening_row(item->cast, MT_BF16, item->count);
        status = LISTENING_LAUNCH(queue, &value, &grad, &mean, &square, item->cast != 0 ? &cast : NULL);
    }
    return status;
}

static mt_status listening_random(uint64_t generator, double center, double spread, const struct mtk_view *out,
                                  struct mtk_queue *queue)
{
    (void)generator;
    (void)center;
    (void)spread;
    return LISTENING_LAUNCH(queue, out);
}

static const struct mtk_table listening_kernels = {
    .name = "listening",
    .fill = listening_fill,
    .unary = listening_unary,
    .binary = listening_binary,
    .ternary = listening_ternary,
    .reduce = listening_reduce,
    .lower_triangle = listening_two,
    .matmul = listening_matmul,
    .gather_rows = listening_three,
    .scatter_add_rows = listening_three,
    .pick = listening_three,
    .place_add = listening_three,
    .rotate = listening_rotate,
    .softmax = listening_softmax,
    .softmax_grad = listening_softmax_grad,
    .attention = listening_attention,
    .attention_grad = listening_attention_grad,
    .rms_norm = listening_rms_norm,
    .rms_norm_grad = listening_rms_norm_grad,
    .swiglu = listening_two,
    .swiglu_grad = listening_two,
    .cross_entropy = listening_cross_entropy,
    .adamw = listening_adamw,
    .random = listening_random,
};

#endif
