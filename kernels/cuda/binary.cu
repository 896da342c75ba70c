/* out = f(a, b): the elementwise ops of two operands, by the kernel of elementwise.cuh. `out` may be the same view as
 * `a` or `b`. */
#include "kernels/cuda/elementwise.cuh"

template <typename T> __device__ __forceinline__ T binary(int op, T s, T x, T y)
{
    switch (op) {
    case MTK_ADD:
        return x + y;
    case MTK_SUBTRACT:
        return x - y;
    case MTK_MULTIPLY:
        return x * y;
    case MTK_DIVIDE:
        return x / y;
    case MTK_EQUAL:
        return x == y ? 1 : 0;
    case MTK_SIGMOID_GRAD:
        return x * y * (1 - y);
    case MTK_LERP:
        return x + s * (y - x);
    default: /* MTK_LERP_SQUARE */
        return x + s * (y * y - x);
    }
}

/* The op as a function. OP is an op known at compile time; if it is ANY, the op is `op`. */
enum { ANY = -1 };
template <typename T, int OP> struct binary_function {
    int op;
    T s;
    __device__ T operator()(const T *x) const
    {
        return binary<T>(OP == ANY ? op : OP, s, x[0], x[1]);
    }
};

template <typename T, int OP>
static mt_status launch(int op, double s, const struct mtk_view *const *views, struct mtk_queue *queue)
{
    return mtk_elementwise_launch<T, 3>("binary", binary_function<T, OP>{op, (T)s}, views, queue);
}

mt_status mtk_cuda_binary(mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a,
                          const struct mtk_view *b, struct mtk_queue *queue)
{
    const struct mtk_view *views[] = {out, a, b};
    if (mtk_is_wide(out->dtype) || mtk_is_wide(a->dtype) || mtk_is_wide(b->dtype))
        return launch<double, ANY>(op, s, views, queue);
    switch (op) {
    case MTK_ADD:
        return launch<float, MTK_ADD>(op, s, views, queue);
    case MTK_SUBTRACT:
        return launch<float, MTK_SUBTRACT>(op, s, views, queue);
    case MTK_MULTIPLY:
        return launch<float, MTK_MULTIPLY>(op, s, views, queue);
    case MTK_DIVIDE:
        return launch<float, MTK_DIVIDE>(op, s, views, queue);
    case MTK_EQUAL:
        return launch<float, MTK_EQUAL>(op, s, views, queue);
    case MTK_SIGMOID_GRAD:
        return launch<float, MTK_SIGMOID_GRAD>(op, s, views, queue);
    case MTK_LERP:
        return launch<float, MTK_LERP>(op, s, views, queue);
    case MTK_LERP_SQUARE:
        return launch<float, MTK_LERP_SQUARE>(op, s, views, queue);
    }
    return mt_fail(MT_FAILED, "binary: no op %d", (int)op);
}
