/* The gate of SwiGLU over both of its operands side by side, and its gradient in place of them.
 *
 *   in (n,2F)  | a: F | b: F |    out (n,F) = silu(a) * b */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#include <math.h>

static int64_t row_count(const struct mtk_view *view)
{
    return view->shape[0] * view->shape[1] * view->shape[2];
}

static char *place(const struct mtk_view *view, int64_t number)
{
    return mtk_pointer(view->address) + number * (int64_t)mt_dtype_bytes(view->dtype);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* A tile of `count` columns from c of a row, on both sides. */
struct tile {
    int64_t count, left, right, out; /* where it lies, in elements */
    double a[MTK_TILE], b[MTK_TILE];
};

static void read_tile(struct tile *tile, const struct mtk_view *in, int64_t F, int64_t row, int64_t c)
{
    tile->count = F - c < MTK_TILE ? F - c : MTK_TILE;
    tile->left = row * 2 * F + c;
    tile->right = tile->left + F;
    tile->out = row * F + c;
    mtk_load(place(in, tile->left), in->dtype, 1, tile->count, tile->a);
    mtk_load(place(in, tile->right), in->dtype, 1, tile->count, tile->b);
}

mt_status mtk_cpu_swiglu(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)queue;
    int64_t F = out->shape[3];
    struct tile tile;
    for (int64_t row = 0; row < row_count(out); row++)
        for (int64_t c = 0; c < F; c += MTK_TILE) {
            read_tile(&tile, in, F, row, c);
            for (int64_t i = 0; i < tile.count; i++)
                tile.a[i] *= sigmoid(tile.a[i]) * tile.b[i];
            mtk_store(place(out, tile.out), out->dtype, 1, tile.count, tile.a);
        }
    return MT_OK;
}

/* One element: the gradients replace a and b, the gate's output its gradient. */
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
    struct tile tile;
    double g[MTK_TILE];
    for (int64_t row = 0; row < row_count(grad); row++)
        for (int64_t c = 0; c < F; c += MTK_TILE) {
            read_tile(&tile, in, F, row, c);
            mtk_load(place(grad, tile.out), grad->dtype, 1, tile.count, g);
            for (int64_t i = 0; i < tile.count; i++)
                differentiate(&tile.a[i], &tile.b[i], &g[i]);
            mtk_store(place(in, tile.left), in->dtype, 1, tile.count, tile.a);
            mtk_store(place(in, tile.right), in->dtype, 1, tile.count, tile.b);
            mtk_store(place(grad, tile.out), grad->dtype, 1, tile.count, g);
        }
    return MT_OK;
}
