/* out = f(a, b): the elementwise ops of two operands. `out` may be the same view as `a` or `b`. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#define EACH(expression)                                                                                               \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        double x = a[i], y = b[i];                                                                                     \
        a[i] = expression;                                                                                             \
    }                                                                                                                  \
    return

/* a[i] = f(a[i], b[i]). */
static void apply(mtk_binary_op op, double s, int64_t count, double *restrict a, const double *restrict b)
{
    switch (op) {
    case MTK_ADD:
        EACH(x + y);
    case MTK_SUBTRACT:
        EACH(x - y);
    case MTK_MULTIPLY:
        EACH(x * y);
    case MTK_DIVIDE:
        EACH(x / y);
    case MTK_EQUAL:
        EACH(x == y);
    case MTK_SIGMOID_GRAD:
        EACH(x * y * (1 - y));
    case MTK_LERP:
        EACH(x + s * (y - x));
    case MTK_LERP_SQUARE:
        EACH(x + s * (y * y - x));
    }
}

mt_status mtk_cpu_binary(mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a,
                         const struct mtk_view *b, struct mtk_queue *queue)
{
    (void)queue;
    double first[MTK_TILE], second[MTK_TILE];
    struct mtk_walk walk;
    mtk_walk_begin(&walk, 3, (const struct mtk_view *const[]){out, a, b});
    while (mtk_walk_next(&walk)) {
        mtk_walk_load(&walk, 1, first);
        mtk_walk_load(&walk, 2, second);
        apply(op, s, walk.count, first, second);
        mtk_walk_store(&walk, 0, first);
    }
    return MT_OK;
}
