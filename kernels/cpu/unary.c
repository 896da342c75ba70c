/* out = f(in): the elementwise ops of one operand. `out` may be the same view as `in`. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#include <math.h>
#include <string.h>

#define EACH(expression)                                                                                               \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        double x = tile[i];                                                                                            \
        tile[i] = expression;                                                                                          \
    }                                                                                                                  \
    return

/* tile[i] = f(tile[i]). */
static void apply(mtk_unary_op op, double s, int64_t count, double *tile)
{
    switch (op) {
    case MTK_COPY:
        return;
    case MTK_NEGATE:
        EACH(-x);
    case MTK_ABS:
        EACH(fabs(x));
    case MTK_EXP:
        EACH(exp(x));
    case MTK_SQRT:
        EACH(sqrt(x) + s);
    case MTK_RSQRT:
        EACH(1 / sqrt(x));
    case MTK_SIGMOID:
        EACH(1 / (1 + exp(-x)));
    case MTK_LOG:
        EACH(log(x));
    case MTK_POWER:
        if (s == 2) {
            EACH(x * x);
        }
        EACH(pow(x, s));
    case MTK_ADD_SCALAR:
        EACH(x + s);
    case MTK_MUL_SCALAR:
        EACH(x * s);
    case MTK_DIV_SCALAR:
        EACH(x / s);
    case MTK_EQUAL_SCALAR:
        EACH(x == s);
    }
}

/* Copies the current tile of view 1 to view 0, both of elements of `bytes`, as they are. */
static void copy_tile(const struct mtk_walk *walk, size_t bytes)
{
    int64_t to = walk->stride[0][3], from = walk->stride[1][3];
    if (to == 1 && from == 1) {
        memmove(walk->at[0], walk->at[1], (size_t)walk->count * bytes);
        return;
    }
    for (int64_t i = 0; i < walk->count; i++)
        memcpy(walk->at[0] + i * to * (int64_t)bytes, walk->at[1] + i * from * (int64_t)bytes, bytes);
}

mt_status mtk_cpu_unary(mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in,
                        struct mtk_queue *queue)
{
    (void)queue;
    bool as_is = op == MTK_COPY && out->dtype == in->dtype;
    double tile[MTK_TILE];
    struct mtk_walk walk;
    mtk_walk_begin(&walk, 2, (const struct mtk_view *const[]){out, in});
    while (mtk_walk_next(&walk)) {
        if (as_is) {
            copy_tile(&walk, mt_dtype_bytes(out->dtype));
            continue;
        }
        mtk_walk_load(&walk, 1, tile);
        apply(op, s, walk.count, tile);
        mtk_walk_store(&walk, 0, tile);
    }
    return MT_OK;
}
