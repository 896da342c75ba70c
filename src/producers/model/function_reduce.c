/* Reductions and their gradients. */
#include "producers/model/functions.h"

#include <assert.h>
#include <string.h>

/* Returns a view of `grad` that repeats it to the input's shape. */
static struct mt_tensor *expand(struct mt_runtime *rt, struct mt_tensor *grad, const struct mt_edge *edge)
{
    int64_t stride[MT_MAX_DIMS] = {0};
    int missing = edge->dims - grad->dims;
    assert(missing >= 0);
    for (int i = missing; i < edge->dims; i++)
        stride[i] = grad->shape[i - missing] == 1 ? 0 : grad->stride[i - missing];
    return mt_tensor_view(rt, grad, edge->dims, edge->shape, stride, 0);
}

/* Computes a reduction over the last dimension, whose size becomes 1. */
static struct mt_tensor *reduce_last(struct mt_runtime *rt, mt_role role, const char *name, mtk_reduce_op op,
                                     const struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    int64_t shape[MT_MAX_DIMS];
    assert(x->dims > 0);
    memcpy(shape, x->shape, sizeof shape);
    shape[x->dims - 1] = 1;
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, x->dims, shape);
    mt_op_reduce(rt, op, out, x);
    return out;
}

/* The gradient, repeated along the summed dimensions. */
static void sum_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                         struct mt_tensor **out)
{
    out[0] = expand(rt, grad, &node->edges[0]);
}

struct mt_tensor *mt_sum_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *input = mt_autocast_fp32(rt, MT_ROLE_TEMPORARY, x);
    struct mt_tensor *out = reduce_last(rt, role, name, MTK_SUM, input);
    mt_graph_add(rt, name, sum_backward, out, input, NULL);
    mt_tensor_release(rt, input);
    return out;
}

/* The gradient, repeated along the averaged elements and divided by their number. */
static void mean_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                          struct mt_tensor **out)
{
    const struct mt_edge *edge = &node->edges[0];
    struct mt_tensor *repeated = expand(rt, grad, edge);
    out[0] = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "div", grad->dtype, edge->dims, edge->shape);
    if (out[0] != NULL)
        mt_op_unary(rt, MTK_DIV_SCALAR, (double)(mt_tensor_count(out[0]) / mt_tensor_count(grad)), out[0], repeated);
    mt_tensor_release(rt, repeated);
}

struct mt_tensor *mt_mean_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *out = reduce_last(rt, role, name, MTK_MEAN, x);
    mt_graph_add(rt, name, mean_backward, out, x, NULL);
    return out;
}

struct mt_tensor *mt_mean_all(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, 0, NULL);
    mt_op_reduce(rt, MTK_MEAN, out, x);
    mt_graph_add(rt, name, mean_backward, out, x, NULL);
    return out;
}

/* Counts the set elements of `mask` in each row, in int64, via a copy of the mask in int64. */
static struct mt_tensor *count_in_rows(struct mt_runtime *rt, const struct mt_tensor *mask,
                                       const struct mt_tensor *rows)
{
    struct mt_tensor *count = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "count", MT_I64, rows->dims, rows->shape);
    struct mt_tensor *wide =
        mask == NULL ? NULL : mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "count.cast", MT_I64, mask->dims, mask->shape);
    mt_op_unary(rt, MTK_COPY, 0, wide, mask);
    mt_op_reduce(rt, MTK_SUM, count, wide);
    mt_tensor_release(rt, wide);
    return count;
}

/* The gradient is split equally between all elements that equal the maximum. Saved: x, the result. */
static void max_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                         struct mt_tensor **out)
{
    struct mt_tensor *x = node->saved[0], *result = node->saved[1];
    struct mt_tensor *mask = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "mask", MT_BOOL, x->dims, x->shape);
    mt_op_binary(rt, MTK_EQUAL, 0, mask, x, result);
    struct mt_tensor *count = count_in_rows(rt, mask, result);
    struct mt_tensor *share = mt_tensor_temporary_like(rt, "div", grad);
    mt_op_binary(rt, MTK_DIVIDE, 0, share, grad, count);
    out[0] = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "mul", grad->dtype, x->dims, x->shape);
    mt_op_binary(rt, MTK_MULTIPLY, 0, out[0], mask, share);
    MT_RELEASE(rt, share, count, mask);
}

struct mt_tensor *mt_max_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *out = reduce_last(rt, role, name, MTK_MAX, x);
    struct mt_node *node = mt_graph_add(rt, name, max_backward, out, x, NULL);
    mt_node_save(rt, node, 0, x);
    mt_node_save(rt, node, 1, out);
    return out;
}

/* Returns a view with a last dimension of 1 added. */
static struct mt_tensor *as_column(struct mt_runtime *rt, struct mt_tensor *x)
{
    int64_t shape[MT_MAX_DIMS], stride[MT_MAX_DIMS];
    if (x == NULL)
        return NULL;
    memcpy(shape, x->shape, sizeof shape);
    memcpy(stride, x->stride, sizeof stride);
    assert(x->dims < MT_MAX_DIMS);
    shape[x->dims] = stride[x->dims] = 1;
    return mt_tensor_view(rt, x, x->dims + 1, shape, stride, 0);
}

/* d logsumexp = grad e^(x - result). Saved: x, the result. */
static void logsumexp_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                               struct mt_tensor **out)
{
    struct mt_tensor *x = node->saved[0];
    struct mt_tensor *result = as_column(rt, node->saved[1]), *column = as_column(rt, grad);
    struct mt_tensor *difference = mt_tensor_temporary_like(rt, "sub", x);
    mt_op_binary(rt, MTK_SUBTRACT, 0, difference, x, result);
    struct mt_tensor *share = mt_tensor_temporary_like(rt, "exp", x);
    mt_op_unary(rt, MTK_EXP, 0, share, difference);
    out[0] = mt_tensor_temporary_like(rt, "mul", x);
    mt_op_binary(rt, MTK_MULTIPLY, 0, out[0], share, column);
    MT_RELEASE(rt, share, difference, column, result);
}

/* Replaces infinite maxima by 0 before they are subtracted. Allocates their magnitude and a mask. */
static void replace_infinite(struct mt_runtime *rt, struct mt_tensor *maxima)
{
    struct mt_tensor *magnitude = mt_tensor_temporary_like(rt, "logsumexp.abs", maxima);
    mt_op_unary(rt, MTK_ABS, 0, magnitude, maxima);
    struct mt_tensor *infinite = maxima == NULL ? NULL
                                                : mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "logsumexp.is_inf", MT_BOOL,
                                                                  maxima->dims, maxima->shape);
    mt_op_unary(rt, MTK_EQUAL_SCALAR, (double)__builtin_inf(), infinite, magnitude);
    mt_op_fill(rt, magnitude, 0);
    mt_op_ternary(rt, MTK_SELECT, 0, 0, maxima, infinite, magnitude, maxima);
    MT_RELEASE(rt, infinite, magnitude);
}

struct mt_tensor *mt_logsumexp(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *input = mt_autocast_fp32(rt, MT_ROLE_ACTIVATION, x);
    if (input == NULL)
        return NULL;
    struct mt_tensor *maxima = reduce_last(rt, MT_ROLE_TEMPORARY, "logsumexp.max", MTK_MAX, input);
    replace_infinite(rt, maxima);
    struct mt_tensor *shifted = mt_tensor_temporary_like(rt, "logsumexp.sub", input);
    mt_op_binary(rt, MTK_SUBTRACT, 0, shifted, input, maxima);
    mt_op_unary(rt, MTK_EXP, 0, shifted, shifted);
    struct mt_tensor *out =
        mt_tensor_empty(rt, mt_effective_role(rt, role), name, input->dtype, input->dims - 1, input->shape);
    struct mt_tensor *column = as_column(rt, out);
    mt_op_reduce(rt, MTK_SUM, column, shifted);
    mt_op_unary(rt, MTK_LOG, 0, column, column);
    mt_op_binary(rt, MTK_ADD, 0, column, column, maxima);
    MT_RELEASE(rt, column, shifted, maxima);
    struct mt_node *node = mt_graph_add(rt, name, logsumexp_backward, out, input, NULL);
    mt_node_save(rt, node, 0, input);
    mt_node_save(rt, node, 1, out);
    mt_tensor_release(rt, input);
    return out;
}
