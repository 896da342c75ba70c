/* out = f(a, b, c): the elementwise ops of three operands. `out` may be the same view as any of them. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#define EACH(expression)                                                                                               \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        double x = a[i], y = b[i], z = c[i];                                                                           \
        a[i] = expression;                                                                                             \
    }                                                                                                                  \
    return

/* a[i] = f(a[i], b[i], c[i]). */
static void apply(mtk_ternary_op op, double s, double t, int64_t count, double *restrict a, const double *restrict b,
                  const double *restrict c)
{
    switch (op) {
    case MTK_SELECT:
        EACH(x != 0 ? y : z);
    case MTK_ADD_QUOTIENT:
        EACH(t * x + s * y / z);
    }
}

mt_status mtk_cpu_ternary(mtk_ternary_op op, double s, double t, const struct mtk_view *out, const struct mtk_view *a,
                          const struct mtk_view *b, const struct mtk_view *c, struct mtk_queue *queue)
{
    (void)queue;
    double first[MTK_TILE], second[MTK_TILE], third[MTK_TILE];
    struct mtk_walk walk;
    mtk_walk_begin(&walk, 4, (const struct mtk_view *const[]){out, a, b, c});
    while (mtk_walk_next(&walk)) {
        mtk_walk_load(&walk, 1, first);
        mtk_walk_load(&walk, 2, second);
        mtk_walk_load(&walk, 3, third);
        apply(op, s, t, walk.count, first, second, third);
        mtk_walk_store(&walk, 0, first);
    }
    return MT_OK;
}
