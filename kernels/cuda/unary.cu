/* out = f(in): the elementwise ops of one operand, by the kernel of elementwise.cuh. `out` may be the same view as
 * `in`. Copies between views with different fastest dimensions are in copy.cu. */
#include "kernels/cuda/copy.h"
#include "kernels/cuda/elementwise.cuh"

/* Returns x^s, using products for common exponents. */
template <typename T> __device__ __forceinline__ T power(T x, double s)
{
    if (s == 2)
        return x * x;
    if (s == 1)
        return x;
    if (s == 3)
        return x * x * x;
    if (s == -1)
        return 1 / x;
    if (s == 0.5)
        return sqrt(x);
    return pow(x, (T)s);
}

template <typename T> __device__ __forceinline__ T unary(int op, double s, T x)
{
    switch (op) {
    case MTK_COPY:
        return x;
    case MTK_NEGATE:
        return -x;
    case MTK_ABS:
        return fabs(x);
    case MTK_EXP:
        return exp(x);
    case MTK_SQRT:
        return sqrt(x) + (T)s;
    case MTK_RSQRT:
        return 1 / sqrt(x);
    case MTK_SIGMOID:
        return 1 / (1 + exp(-x));
    case MTK_LOG:
        return log(x);
    case MTK_POWER:
        return power(x, s);
    case MTK_ADD_SCALAR:
        return x + (T)s;
    case MTK_MUL_SCALAR:
        return x * (T)s;
    case MTK_DIV_SCALAR:
        return x / (T)s;
    default: /* MTK_EQUAL_SCALAR */
        return (double)x == s ? 1 : 0;
    }
}

/* The op as a function. OP is an op known at compile time; if it is ANY, the op is `op`. */
enum { ANY = -1 };
template <typename T, int OP> struct unary_function {
    int op;
    double s;
    __device__ T operator()(const T *x) const
    {
        return unary<T>(OP == ANY ? op : OP, s, x[0]);
    }
};

template <typename T, int OP>
static mt_status launch(int op, double s, const struct mtk_view *const *views, struct mtk_queue *queue)
{
    return mtk_elementwise_launch<T, 2>("unary", unary_function<T, OP>{op, s}, views, queue);
}

/* Returns the dtype with which a copy between equal dtypes moves bits: fp64 for int64, a byte for bool. */
static mt_dtype as_bits(mt_dtype dtype)
{
    return dtype == MT_I64 ? MT_F64 : dtype == MT_BOOL ? MT_U8 : dtype;
}

static mt_status copy(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    struct mtk_view to = *out, from = *in;
    if (to.dtype == from.dtype)
        to.dtype = from.dtype = as_bits(to.dtype);
    const struct mtk_view *views[] = {&to, &from};
    if (mtk_copy_transposes(&to, &from))
        return mtk_copy_transposing(&to, &from, queue);
    if (mtk_is_wide(to.dtype) || mtk_is_wide(from.dtype))
        return launch<double, MTK_COPY>(MTK_COPY, 0, views, queue);
    return launch<float, MTK_COPY>(MTK_COPY, 0, views, queue);
}

mt_status mtk_cuda_unary(mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in,
                         struct mtk_queue *queue)
{
    const struct mtk_view *views[] = {out, in};
    if (op == MTK_COPY)
        return copy(out, in, queue);
    if (mtk_is_wide(out->dtype) || mtk_is_wide(in->dtype))
        return launch<double, ANY>(op, s, views, queue);
    switch (op) {
    case MTK_NEGATE:
        return launch<float, MTK_NEGATE>(op, s, views, queue);
    case MTK_ABS:
        return launch<float, MTK_ABS>(op, s, views, queue);
    case MTK_EXP:
        return launch<float, MTK_EXP>(op, s, views, queue);
    case MTK_SQRT:
        return launch<float, MTK_SQRT>(op, s, views, queue);
    case MTK_RSQRT:
        return launch<float, MTK_RSQRT>(op, s, views, queue);
    case MTK_SIGMOID:
        return launch<float, MTK_SIGMOID>(op, s, views, queue);
    case MTK_LOG:
        return launch<float, MTK_LOG>(op, s, views, queue);
    case MTK_POWER:
        return launch<float, MTK_POWER>(op, s, views, queue);
    case MTK_ADD_SCALAR:
        return launch<float, MTK_ADD_SCALAR>(op, s, views, queue);
    case MTK_MUL_SCALAR:
        return launch<float, MTK_MUL_SCALAR>(op, s, views, queue);
    case MTK_DIV_SCALAR:
        return launch<float, MTK_DIV_SCALAR>(op, s, views, queue);
    case MTK_EQUAL_SCALAR:
        return launch<float, MTK_EQUAL_SCALAR>(op, s, views, queue);
    case MTK_COPY:
        break;
    }
    return mt_fail(MT_FAILED, "unary: no op %d", (int)op);
}
