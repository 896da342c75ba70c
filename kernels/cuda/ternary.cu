/* out = f(a, b, c): the elementwise ops of three operands, by the kernel of elementwise.cuh. `out` may be the same view
 * as any of them. */
#include "kernels/cuda/elementwise.cuh"

template <typename T> __device__ __forceinline__ T ternary(int op, T s, T t, T x, T y, T z)
{
    switch (op) {
    case MTK_SELECT:
        return x != 0 ? y : z;
    default: /* MTK_ADD_QUOTIENT */
        return t * x + s * y / z;
    }
}

/* The op as a function. OP is an op known at compile time; if it is ANY, the op is `op`. */
enum { ANY = -1 };
template <typename T, int OP> struct ternary_function {
    int op;
    T s, t;
    __device__ T operator()(const T *x) const
    {
        return ternary<T>(OP == ANY ? op : OP, s, t, x[0], x[1], x[2]);
    }
};

template <typename T, int OP>
static mt_status launch(int op, double s, double t, const struct mtk_view *const *views, struct mtk_queue *queue)
{
    return mtk_elementwise_launch<T, 4>("ternary", ternary_function<T, OP>{op, (T)s, (T)t}, views, queue);
}

mt_status mtk_cuda_ternary(mtk_ternary_op op, double s, double t, const struct mtk_view *out, const struct mtk_view *a,
                           const struct mtk_view *b, const struct mtk_view *c, struct mtk_queue *queue)
{
    const struct mtk_view *views[] = {out, a, b, c};
    for (const struct mtk_view *view : views)
        if (mtk_is_wide(view->dtype))
            return launch<double, ANY>(op, s, t, views, queue);
    switch (op) {
    case MTK_SELECT:
        return launch<float, MTK_SELECT>(op, s, t, views, queue);
    case MTK_ADD_QUOTIENT:
        return launch<float, MTK_ADD_QUOTIENT>(op, s, t, views, queue);
    }
    return mt_fail(MT_FAILED, "ternary: no op %d", (int)op);
}
