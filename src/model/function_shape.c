/* Functions that look at the same memory in another way, and copies where that is not possible. */
#include "model/function_rules.h"

#include <string.h>

/* The elements of `x` in row-major order, in memory of their own. */
static struct mt_tensor *row_major_copy(struct mt_runtime *rt, mt_role role, const char *name,
                                        const struct mt_tensor *x)
{
    struct mt_tensor *copy = mt_tensor_empty(rt, role, name, x->dtype, x->dims, x->shape);
    mt_op_unary(rt, MTK_COPY, 0, copy, x);
    return copy;
}

/* `x` as `shape`: a view if its strides allow one, else a view of a row-major copy. */
static struct mt_tensor *view_or_copy(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x,
                                      int dims, const int64_t *shape)
{
    int64_t stride[MT_MAX_DIMS];
    if (x == NULL)
        return NULL;
    if (mt_tensor_view_strides(x, dims, shape, stride))
        return mt_tensor_view(rt, x, dims, shape, stride, 0);
    struct mt_tensor *copy = row_major_copy(rt, role, name, x);
    struct mt_tensor *view = view_or_copy(rt, role, name, copy, dims, shape);
    mt_tensor_release(rt, copy);
    return view;
}

static void view_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                          struct mt_tensor **out)
{
    out[0] = view_or_copy(rt, MT_ROLE_TEMPORARY, "copy", grad, node->edges[0].dims, node->edges[0].shape);
}

struct mt_tensor *mt_view(struct mt_runtime *rt, struct mt_tensor *x, int dims, const int64_t *shape)
{
    int64_t stride[MT_MAX_DIMS];
    if (x == NULL || rt->status != MT_OK)
        return NULL;
    if (!mt_tensor_view_strides(x, dims, shape, stride)) {
        mt_runtime_fail(rt, mt_fail(MT_FAILED, "view: the tensor's strides need a copy"));
        return NULL;
    }
    struct mt_tensor *out = mt_tensor_view(rt, x, dims, shape, stride, 0);
    mt_graph_record(rt, NULL, view_backward, out, x, NULL);
    return out;
}

static struct mt_tensor *permuted_view(struct mt_runtime *rt, struct mt_tensor *x, const int *order)
{
    int64_t shape[MT_MAX_DIMS] = {0}, stride[MT_MAX_DIMS] = {0};
    if (x == NULL)
        return NULL;
    for (int i = 0; i < x->dims; i++) {
        shape[i] = x->shape[order[i]];
        stride[i] = x->stride[order[i]];
    }
    return mt_tensor_view(rt, x, x->dims, shape, stride, 0);
}

static void permute_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                             struct mt_tensor **out)
{
    int inverse[MT_MAX_DIMS] = {0};
    for (int i = 0; i < grad->dims; i++)
        inverse[node->order[i]] = i;
    out[0] = permuted_view(rt, grad, inverse);
}

struct mt_tensor *mt_permute(struct mt_runtime *rt, struct mt_tensor *x, const int *order)
{
    struct mt_tensor *out = permuted_view(rt, x, order);
    struct mt_node *node = mt_graph_record(rt, NULL, permute_backward, out, x, NULL);
    if (node != NULL)
        memcpy(node->order, order, (size_t)x->dims * sizeof order[0]);
    return out;
}

static void copy_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                          struct mt_tensor **out)
{
    (void)rt;
    (void)node;
    out[0] = mt_tensor_retain(grad);
}

struct mt_tensor *mt_reshape(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, int dims,
                             const int64_t *shape)
{
    int64_t stride[MT_MAX_DIMS];
    if (x == NULL || rt->status != MT_OK)
        return NULL;
    if (mt_tensor_view_strides(x, dims, shape, stride))
        return mt_view(rt, x, dims, shape);
    struct mt_tensor *copy = row_major_copy(rt, mt_effective_role(rt, role), name, x);
    mt_graph_record(rt, name, copy_backward, copy, x, NULL);
    struct mt_tensor *out = mt_view(rt, copy, dims, shape);
    mt_tensor_release(rt, copy);
    return out;
}

/* A rotation's gradient is rotated back. */
static void rotate_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                            struct mt_tensor **out)
{
    out[0] = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "grad", grad->dtype, grad->dims, grad->shape);
    mt_op_rotate(rt, node->scalar, -1, out[0], grad);
}

struct mt_tensor *mt_rotate(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double theta)
{
    if (x == NULL)
        return NULL;
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, x->dims, x->shape);
    mt_op_rotate(rt, theta, 1, out, x);
    struct mt_node *node = mt_graph_record(rt, name, rotate_backward, out, x, NULL);
    if (node != NULL)
        node->scalar = theta;
    return out;
}
