/* Elementwise functions and their gradients. A backward makes the allocations of PyTorch's formula, in its order. */
#include "producers/model/functions.h"

#include <assert.h>

/* Returns the dtype of an op on both, as in PyTorch's type promotion: the wider floating type. */
static mt_dtype promoted(const struct mt_tensor *a, const struct mt_tensor *b)
{
    if (a->dtype == MT_F64 || b->dtype == MT_F64)
        return MT_F64;
    return a->dtype == b->dtype ? a->dtype : MT_F32;
}

/* Computes a binary op: its output has the broadcast shape of both operands, which is the shape of one of them. */
static struct mt_tensor *binary_output(struct mt_runtime *rt, mt_role role, const char *name, mtk_binary_op op,
                                       const struct mt_tensor *a, const struct mt_tensor *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    int64_t more = mt_tensor_count(a) - mt_tensor_count(b);
    const struct mt_tensor *wide = more > 0 || (more == 0 && a->dims >= b->dims) ? a : b;
    assert(wide->dims >= a->dims && wide->dims >= b->dims);
    struct mt_tensor *out =
        mt_tensor_empty(rt, mt_effective_role(rt, role), name, promoted(a, b), wide->dims, wide->shape);
    mt_op_binary(rt, op, 0, out, a, b);
    return out;
}

/* Computes a unary op: its output is row-major, in the shape and dtype of x. */
static struct mt_tensor *unary_output(struct mt_runtime *rt, mt_role role, const char *name, mtk_unary_op op, double s,
                                      const struct mt_tensor *x)
{
    struct mt_tensor *out = mt_function_output(rt, role, name, x);
    mt_op_unary(rt, op, s, out, x);
    return out;
}

/* Computes a unary op whose backward needs the result. */
static struct mt_tensor *unary_saved(struct mt_runtime *rt, mt_role role, const char *name, mtk_unary_op op,
                                     mt_backward_function *backward, struct mt_tensor *x)
{
    struct mt_tensor *out = unary_output(rt, role, name, op, 0, x);
    mt_node_save(rt, mt_graph_add(rt, name, backward, out, x, NULL), 0, out);
    return out;
}

/* Computes a unary op in backward: its output is laid out like x. */
static struct mt_tensor *backward_unary(struct mt_runtime *rt, const char *name, mtk_unary_op op, double s,
                                        const struct mt_tensor *x)
{
    struct mt_tensor *out = mt_tensor_temporary_like(rt, name, x);
    mt_op_unary(rt, op, s, out, x);
    return out;
}

/* Computes a binary op in backward: its output has the shape of `like`, which is one of the operands. */
static struct mt_tensor *backward_binary(struct mt_runtime *rt, const char *name, mtk_binary_op op,
                                         const struct mt_tensor *like, const struct mt_tensor *a,
                                         const struct mt_tensor *b)
{
    if (like == NULL || a == NULL || b == NULL)
        return NULL;
    struct mt_tensor *out = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, name, promoted(a, b), like->dims, like->shape);
    mt_op_binary(rt, op, 0, out, a, b);
    return out;
}

/* d(a + b) = da + db: both inputs get the gradient itself. */
static void add_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                         struct mt_tensor **out)
{
    (void)rt;
    for (int i = 0; i < MT_NODE_EDGES; i++)
        out[i] = mt_node_wants(node, i) ? mt_tensor_retain(grad) : NULL;
}

struct mt_tensor *mt_add(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                         struct mt_tensor *b)
{
    struct mt_tensor *out = binary_output(rt, role, name, MTK_ADD, a, b);
    mt_graph_add(rt, name, add_backward, out, a, b);
    return out;
}

/* d(a - b) = da - db. */
static void subtract_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                              struct mt_tensor **out)
{
    if (mt_node_wants(node, 1))
        out[1] = backward_unary(rt, "neg", MTK_NEGATE, 0, grad);
    if (mt_node_wants(node, 0))
        out[0] = mt_tensor_retain(grad);
}

struct mt_tensor *mt_subtract(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                              struct mt_tensor *b)
{
    struct mt_tensor *out = binary_output(rt, role, name, MTK_SUBTRACT, a, b);
    mt_graph_add(rt, name, subtract_backward, out, a, b);
    return out;
}

/* d(ab) = b da + a db. Saved: b, a. */
static void multiply_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                              struct mt_tensor **out)
{
    if (mt_node_wants(node, 1))
        out[1] = backward_binary(rt, "grad_b", MTK_MULTIPLY, grad, grad, node->saved[1]);
    if (mt_node_wants(node, 0))
        out[0] = backward_binary(rt, "grad_a", MTK_MULTIPLY, grad, grad, node->saved[0]);
}

struct mt_tensor *mt_multiply(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                              struct mt_tensor *b)
{
    struct mt_tensor *out = binary_output(rt, role, name, MTK_MULTIPLY, a, b);
    struct mt_node *node = mt_graph_add(rt, name, multiply_backward, out, a, b);
    mt_node_save(rt, node, 0, b);
    mt_node_save(rt, node, 1, a);
    return out;
}

/* Computes db = -grad * ((a / b) / b), term by term like PyTorch's formula. */
static struct mt_tensor *divisor_gradient(struct mt_runtime *rt, struct mt_tensor *grad, struct mt_tensor *a,
                                          struct mt_tensor *b)
{
    struct mt_tensor *quotient = backward_binary(rt, "div", MTK_DIVIDE, a, a, b);
    struct mt_tensor *ratio = backward_binary(rt, "div", MTK_DIVIDE, a, quotient, b);
    struct mt_tensor *negated = backward_unary(rt, "neg", MTK_NEGATE, 0, grad);
    struct mt_tensor *out = backward_binary(rt, "mul", MTK_MULTIPLY, grad, negated, ratio);
    MT_RELEASE(rt, negated, ratio, quotient);
    return out;
}

/* d(a/b) = da / b - (a / b²) db. Saved: b; a only if b needs a gradient. */
static void divide_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                            struct mt_tensor **out)
{
    if (mt_node_wants(node, 1))
        out[1] = divisor_gradient(rt, grad, node->saved[1], node->saved[0]);
    if (mt_node_wants(node, 0))
        out[0] = backward_binary(rt, "div", MTK_DIVIDE, grad, grad, node->saved[0]);
}

struct mt_tensor *mt_divide(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                            struct mt_tensor *b)
{
    struct mt_tensor *out = binary_output(rt, role, name, MTK_DIVIDE, a, b);
    struct mt_node *node = mt_graph_add(rt, name, divide_backward, out, a, b);
    mt_node_save(rt, node, 0, b);
    if (b != NULL && b->node != NULL)
        mt_node_save(rt, node, 1, a);
    return out;
}

/* d(e^x) = e^x dx. Saved: the result. */
static void exp_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                         struct mt_tensor **out)
{
    out[0] = backward_binary(rt, "mul", MTK_MULTIPLY, grad, grad, node->saved[0]);
}

struct mt_tensor *mt_exp(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *input = mt_autocast_fp32(rt, MT_ROLE_TEMPORARY, x);
    struct mt_tensor *out = unary_saved(rt, role, name, MTK_EXP, exp_backward, input);
    mt_tensor_release(rt, input);
    return out;
}

/* d(x^-1/2) = -1/2 x^-3/2 dx, from the result. Saved: the result. */
static void rsqrt_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                           struct mt_tensor **out)
{
    struct mt_tensor *cube = backward_unary(rt, "pow", MTK_POWER, 3, node->saved[0]);
    struct mt_tensor *half = backward_unary(rt, "mul", MTK_MUL_SCALAR, -0.5, grad);
    out[0] = backward_binary(rt, "mul", MTK_MULTIPLY, grad, half, cube);
    MT_RELEASE(rt, half, cube);
}

struct mt_tensor *mt_rsqrt(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    return unary_saved(rt, role, name, MTK_RSQRT, rsqrt_backward, x);
}

/* d sigmoid = y (1 - y) dx. Saved: the result y. */
static void sigmoid_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                             struct mt_tensor **out)
{
    out[0] = backward_binary(rt, "grad", MTK_SIGMOID_GRAD, grad, grad, node->saved[0]);
}

struct mt_tensor *mt_sigmoid(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    return unary_saved(rt, role, name, MTK_SIGMOID, sigmoid_backward, x);
}

/* d(x^s) = s x^(s-1) dx. Saved: x. */
static void power_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                           struct mt_tensor **out)
{
    struct mt_tensor *power = backward_unary(rt, "pow", MTK_POWER, node->scalar - 1, node->saved[0]);
    struct mt_tensor *scaled = backward_unary(rt, "mul", MTK_MUL_SCALAR, node->scalar, power);
    out[0] = backward_binary(rt, "mul", MTK_MULTIPLY, grad, grad, scaled);
    MT_RELEASE(rt, scaled, power);
}

struct mt_tensor *mt_power(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double exponent)
{
    struct mt_tensor *out = unary_output(rt, role, name, MTK_POWER, exponent, x);
    struct mt_node *node = mt_graph_add(rt, name, power_backward, out, x, NULL);
    mt_node_set_scalar(node, exponent);
    mt_node_save(rt, node, 0, x);
    return out;
}

struct mt_tensor *mt_add_scalar(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double s)
{
    struct mt_tensor *out = unary_output(rt, role, name, MTK_ADD_SCALAR, s, x);
    mt_graph_add(rt, name, add_backward, out, x, NULL);
    return out;
}

struct mt_tensor *mt_scalar(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype, double value)
{
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, dtype, 0, NULL);
    mt_op_fill(rt, out, value);
    return out;
}

/* The gradient goes to x where the mask is set; elsewhere it is 0. Saved: the mask. */
static void where_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                           struct mt_tensor **out)
{
    struct mt_tensor *zero = mt_scalar(rt, MT_ROLE_TEMPORARY, "zero", grad->dtype, 0);
    out[0] = mt_tensor_temporary_like(rt, "grad", grad);
    mt_op_ternary(rt, MTK_SELECT, 0, 0, out[0], node->saved[0], grad, zero);
    mt_tensor_release(rt, zero);
}

struct mt_tensor *mt_where(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *mask,
                           struct mt_tensor *x, struct mt_tensor *other)
{
    struct mt_tensor *out = mt_function_output(rt, role, name, x);
    mt_op_ternary(rt, MTK_SELECT, 0, 0, out, mask, x, other);
    mt_node_save(rt, mt_graph_add(rt, name, where_backward, out, x, NULL), 0, mask);
    return out;
}
