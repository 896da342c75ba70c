/* The elementwise ops: with one, two or three operands, constants, random numbers and the gate of SwiGLU. Every element
 * is computed from the elements at the same position, so `out` may be the same view as an operand. */
#include "base/random.h"
#include "kernels/cpu/cpu_ops.h"

#include <math.h>
#include <string.h>

/* ---- out = f(operands) ---- */

/* An op with its scalars. */
struct formula {
    int op;
    double s, t;
};

/* Replaces a[i], the first operand, by the op's result, for i < count. */
typedef void apply_function(const struct formula *f, int64_t count, double *restrict a, const double *restrict b,
                            const double *restrict c);

#define LOOP(operands, expression)                                                                                     \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        operands;                                                                                                      \
        a[i] = expression;                                                                                             \
    }                                                                                                                  \
    return

static void apply_unary(const struct formula *f, int64_t count, double *restrict a, const double *restrict b,
                        const double *restrict c)
{
    (void)b;
    (void)c;
    const double s = f->s;
    switch ((mtk_unary_op)f->op) {
#define X(op, formula)                                                                                                 \
    case op:                                                                                                           \
        LOOP(double x = a[i], formula);
        MTK_UNARY_OPS(X)
#undef X
    }
}

static void apply_binary(const struct formula *f, int64_t count, double *restrict a, const double *restrict b,
                         const double *restrict c)
{
    (void)c;
    const double s = f->s;
    switch ((mtk_binary_op)f->op) {
#define X(op, formula)                                                                                                 \
    case op:                                                                                                           \
        LOOP(double x = a[i]; double y = b[i], formula);
        MTK_BINARY_OPS(X)
#undef X
    }
}

static void apply_ternary(const struct formula *f, int64_t count, double *restrict a, const double *restrict b,
                          const double *restrict c)
{
    const double s = f->s, t = f->t;
    switch ((mtk_ternary_op)f->op) {
#define X(op, formula)                                                                                                 \
    case op:                                                                                                           \
        LOOP(double x = a[i]; double y = b[i]; double z = c[i], formula);
        MTK_TERNARY_OPS(X)
#undef X
    }
}

/* Computes view[0], the output, from the operands after it. */
static mt_status compute(apply_function *apply, struct formula f, int views, const struct mtk_view *const *view)
{
    double tile[MTK_WALK_VIEWS - 1][MTK_TILE];
    struct mtk_walk walk;
    mtk_walk_begin(&walk, views, view);
    while (mtk_walk_next(&walk)) {
        for (int v = 1; v < views; v++)
            mtk_walk_load(&walk, v, tile[v - 1]);
        apply(&f, walk.count, tile[0], tile[1], tile[2]);
        mtk_walk_store(&walk, 0, tile[0]);
    }
    return MT_OK;
}

/* Copies the current tile of view 1 to view 0 bit by bit; both have elements of `bytes`. */
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

/* Copies between views of one dtype, preserving every bit. */
static mt_status copy_bits(const struct mtk_view *const *views)
{
    assert(views[0]->dtype == views[1]->dtype);
    struct mtk_walk walk;
    mtk_walk_begin(&walk, 2, views);
    while (mtk_walk_next(&walk))
        copy_tile(&walk, mt_dtype_bytes(views[0]->dtype));
    return MT_OK;
}

mt_status mtk_cpu_unary(mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in,
                        struct mtk_queue *queue)
{
    (void)queue;
    const struct mtk_view *const views[] = {out, in};
    if (op == MTK_COPY && out->dtype == in->dtype)
        return copy_bits(views);
    return compute(apply_unary, (struct formula){op, s, 0}, 2, views);
}

mt_status mtk_cpu_binary(mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a,
                         const struct mtk_view *b, struct mtk_queue *queue)
{
    (void)queue;
    return compute(apply_binary, (struct formula){op, s, 0}, 3, (const struct mtk_view *const[]){out, a, b});
}

mt_status mtk_cpu_ternary(mtk_ternary_op op, double s, double t, const struct mtk_view *out, const struct mtk_view *a,
                          const struct mtk_view *b, const struct mtk_view *c, struct mtk_queue *queue)
{
    (void)queue;
    return compute(apply_ternary, (struct formula){op, s, t}, 4, (const struct mtk_view *const[]){out, a, b, c});
}

/* ---- constants and random numbers ---- */

mt_status mtk_cpu_fill(double value, const struct mtk_view *out, struct mtk_queue *queue)
{
    (void)queue;
    double tile[MTK_TILE];
    for (int i = 0; i < MTK_TILE; i++)
        tile[i] = value;
    struct mtk_walk walk;
    mtk_walk_begin(&walk, 1, &out);
    while (mtk_walk_next(&walk))
        mtk_walk_store(&walk, 0, tile);
    return MT_OK;
}

mt_status mtk_cpu_random(uint64_t generator, double center, double spread, const struct mtk_view *out,
                         struct mtk_queue *queue)
{
    (void)queue;
    assert(mtk_is_contiguous(out));
    double tile[MTK_TILE];
    uint64_t index = 0;
    struct mtk_walk walk;
    mtk_walk_begin(&walk, 1, &out);
    while (mtk_walk_next(&walk)) {
        for (int64_t i = 0; i < walk.count; i++)
            tile[i] = center + (2 * mt_random_unit(generator, index++) - 1) * spread;
        mtk_walk_store(&walk, 0, tile);
    }
    return MT_OK;
}

/* ---- SwiGLU: in (n,2F)  | a: F | b: F |    out (n,F) = silu(a) * b ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* A tile of `count` columns of one row, from both halves of `in`. */
struct gate_tile {
    int64_t count, left, right, out; /* the number of its first element in a, in b and in out */
    double a[MTK_TILE], b[MTK_TILE];
};

static void gate_tile_load(struct gate_tile *tile, const struct mtk_view *in, int64_t F, int64_t row, int64_t c)
{
    tile->count = mtk_tile_count(F - c);
    tile->left = row * 2 * F + c;
    tile->right = tile->left + F;
    tile->out = row * F + c;
    mtk_load(mtk_element(in, tile->left), in->dtype, 1, tile->count, tile->a);
    mtk_load(mtk_element(in, tile->right), in->dtype, 1, tile->count, tile->b);
}

mt_status mtk_cpu_swiglu(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)queue;
    int64_t F = out->shape[3];
    assert(mtk_has_rows_of(in, out, 2 * F) && mtk_is_contiguous(in) && mtk_is_contiguous(out));
    struct gate_tile tile;
    for (int64_t row = 0; row < mtk_row_count(out); row++)
        for (int64_t c = 0; c < F; c += MTK_TILE) {
            gate_tile_load(&tile, in, F, row, c);
            for (int64_t i = 0; i < tile.count; i++)
                tile.a[i] *= sigmoid(tile.a[i]) * tile.b[i];
            mtk_store(mtk_element(out, tile.out), out->dtype, 1, tile.count, tile.a);
        }
    return MT_OK;
}

/* Replaces a and b by their gradients, and `grad` by the output of the gate. */
static void differentiate(double *a, double *b, double *grad)
{
    double s = sigmoid(*a), silu = *a * s, out = silu * *b;
    double da = *grad * *b * s * (1 + *a * (1 - s));
    *b = *grad * silu;
    *a = da;
    *grad = out;
}

mt_status mtk_cpu_swiglu_grad(const struct mtk_view *in, const struct mtk_view *grad, struct mtk_queue *queue)
{
    (void)queue;
    int64_t F = grad->shape[3];
    assert(mtk_has_rows_of(in, grad, 2 * F) && mtk_is_contiguous(in) && mtk_is_contiguous(grad));
    struct gate_tile tile;
    double g[MTK_TILE];
    for (int64_t row = 0; row < mtk_row_count(grad); row++)
        for (int64_t c = 0; c < F; c += MTK_TILE) {
            gate_tile_load(&tile, in, F, row, c);
            mtk_load(mtk_element(grad, tile.out), grad->dtype, 1, tile.count, g);
            for (int64_t i = 0; i < tile.count; i++)
                differentiate(&tile.a[i], &tile.b[i], &g[i]);
            mtk_store(mtk_element(in, tile.left), in->dtype, 1, tile.count, tile.a);
            mtk_store(mtk_element(in, tile.right), in->dtype, 1, tile.count, tile.b);
            mtk_store(mtk_element(grad, tile.out), grad->dtype, 1, tile.count, g);
        }
    return MT_OK;
}
