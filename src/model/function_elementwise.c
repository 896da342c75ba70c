/* Elementwise functions and their gradients. A backward allocates what PyTorch's formula allocates, in its order. */
#include "model/function_rules.h"

#include "model/autocast.h"

/* The output of a binary op: the broadcast shape of both operands, of which one has it already. */
static struct mt_tensor *binary_output(struct mt_runtime *rt, mt_role role, const char *name, mtk_binary_op op,
                                       const struct mt_tensor *a, const struct mt_tensor *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    int64_t more = mt_tensor_count(a) - mt_tensor_count(b);
    const struct mt_tensor *wide = more > 0 || (more == 0 && a->dims >= b->dims) ? a : b;
    struct mt_tensor *out =
        mt_tensor_empty(rt, mt_effective_role(rt, role), name, mt_promoted(a, b), wide->dims, wide->shape);
    mt_op_binary(rt, op, 0, out, a, b);
    return out;
}

static struct mt_tensor *unary_output(struct mt_runtime *rt, mt_role role, const char *name, mtk_unary_op op, double s,
                                      const struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, x->dims, x->shape);
    mt_op_unary(rt, op, s, out, x);
    return out;
}

static struct mt_tensor *backward_unary(struct mt_runtime *rt, const char *name, mtk_unary_op op, double s,
                                        const struct mt_tensor *x)
{
    struct mt_tensor *out = mt_backward_temporary(rt, name, x);
    mt_op_unary(rt, op, s, out, x);
    return out;
}

/* Shaped as `like`, which is one of the operands. */
static struct mt_tensor *backward_binary(struct mt_runtime *rt, const char *name, mtk_binary_op op,
                                         const struct mt_tensor *like, const struct mt_tensor *a,
                                         const struct mt_tensor *b)
{
    if (like == NULL || a == NULL || b == NULL)
        return NULL;
    struct mt_tensor *out = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, name, mt_promoted(a, b), like->dims, like->shape);
    mt_op_binary(rt, op, 0, out, a, b);
    return out;
}

/* d(a + b) = da + db: the gradient itself goes to both. */
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
    mt_graph_record(rt, name, add_backward, out, a, b);
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
    mt_graph_record(rt, name, subtract_backward, out, a, b);
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
    struct mt_node *node = mt_graph_record(rt, name, multiply_backward, out, a, b);
    mt_node_save(rt, node, 0, b);
    mt_node_save(rt, node, 1, a);
    return out;
}

/* db = -grad * ((a / b) / b), term by term as it is written. */
static struct mt_tensor *divisor_gradient(struct mt_runtime *rt, struct mt_tensor *grad, struct mt_tensor *a,
                                          struct mt_tensor *b)
{
    struct mt_tensor *quotient = backward_binary(rt, "div", MTK_DIVIDE, a, a, b);
    struct mt_tensor *ratio = backward_binary(rt, "div", MTK_DIVIDE, a, quotient, b);
    struct mt_tensor *negated = backward_unary(rt, "neg", MTK_NEGATE, 0, grad);
    struct mt_tensor *out = backward_binary(rt, "mul", MTK_MULTIPLY, grad, negated, ratio);
    mt_tensor_release(rt, negated);
    mt_tensor_release(rt, ratio);
    mt_tensor_release(rt, quotient);
    return out;
}

/* d(a/b) = da / b - (a / b²) db. Saved: b, and a if b needs a gradient. */
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
    struct mt_node *node = mt_graph_record(rt, name, divide_backward, out, a, b);
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
    struct mt_tensor *out = unary_output(rt, role, name, MTK_EXP, 0, input);
    mt_node_save(rt, mt_graph_record(rt, name, exp_backward, out, input, NULL), 0, out);
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
    mt_tensor_release(rt, half);
    mt_tensor_release(rt, cube);
}

struct mt_tensor *mt_rsqrt(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *out = unary_output(rt, role, name, MTK_RSQRT, 0, x);
    mt_node_save(rt, mt_graph_record(rt, name, rsqrt_backward, out, x, NULL), 0, out);
    return out;
}

/* d sigmoid = y (1 - y) dx. Saved: the result y. */
static void sigmoid_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                             struct mt_tensor **out)
{
    out[0] = backward_binary(rt, "grad", MTK_SIGMOID_GRAD, grad, grad, node->saved[0]);
}

struct mt_tensor *mt_sigmoid(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *out = unary_output(rt, role, name, MTK_SIGMOID, 0, x);
    mt_node_save(rt, mt_graph_record(rt, name, sigmoid_backward, out, x, NULL), 0, out);
    return out;
}

/* d(x^s) = s x^(s-1) dx. Saved: x. */
static void power_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                           struct mt_tensor **out)
{
    struct mt_tensor *power = backward_unary(rt, "pow", MTK_POWER, node->scalar - 1, node->saved[0]);
    struct mt_tensor *scaled = backward_unary(rt, "mul", MTK_MUL_SCALAR, node->scalar, power);
    out[0] = backward_binary(rt, "mul", MTK_MULTIPLY, grad, grad, scaled);
    mt_tensor_release(rt, scaled);
    mt_tensor_release(rt, power);
}

struct mt_tensor *mt_power(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double exponent)
{
    struct mt_tensor *out = unary_output(rt, role, name, MTK_POWER, exponent, x);
    struct mt_node *node = mt_graph_record(rt, name, power_backward, out, x, NULL);
    if (node != NULL)
        node->scalar = exponent;
    mt_node_save(rt, node, 0, x);
    return out;
}

struct mt_tensor *mt_add_scalar(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double s)
{
    struct mt_tensor *out = unary_output(rt, role, name, MTK_ADD_SCALAR, s, x);
    mt_graph_record(rt, name, add_backward, out, x, NULL);
    return out;
}

/* The gradient of a cast is the cast back. */
static void cast_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                          struct mt_tensor **out)
{
    out[0] = mt_cast(rt, MT_ROLE_TEMPORARY, NULL, grad, node->edges[0].dtype);
}

struct mt_tensor *mt_cast(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, mt_dtype dtype)
{
    if (x == NULL || x->dtype == dtype)
        return mt_tensor_retain(x);
    struct mt_tensor *out = mt_tensor_empty_like(rt, mt_effective_role(rt, role), name, dtype, x);
    mt_op_unary(rt, MTK_COPY, 0, out, x);
    mt_graph_record(rt, name, cast_backward, out, x, NULL);
    return out;
}

struct mt_tensor *mt_scalar(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype, double value)
{
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, dtype, 0, NULL);
    mt_op_fill(rt, out, value);
    return out;
}

/* The gradient passes where the mask let x pass. Saved: the mask. */
static void where_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                           struct mt_tensor **out)
{
    struct mt_tensor *zero = mt_scalar(rt, MT_ROLE_TEMPORARY, "zero", grad->dtype, 0);
    out[0] = mt_backward_temporary(rt, "grad", grad);
    mt_op_ternary(rt, MTK_SELECT, 0, 0, out[0], node->saved[0], grad, zero);
    mt_tensor_release(rt, zero);
}

struct mt_tensor *mt_where(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *mask,
                           struct mt_tensor *x, struct mt_tensor *other)
{
    if (x == NULL)
        return NULL;
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, x->dims, x->shape);
    mt_op_ternary(rt, MTK_SELECT, 0, 0, out, mask, x, other);
    mt_node_save(rt, mt_graph_record(rt, name, where_backward, out, x, NULL), 0, mask);
    return out;
}
