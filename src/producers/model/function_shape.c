/* Functions that move elements: views of the same memory, copies if a view is not possible, rotation, and selection
 * by an index; and their gradients. */
#include "producers/model/functions.h"
#include "producers/model/use.h"

#include <assert.h>
#include <string.h>

/* Copies the elements of `x` in row-major order. */
static struct mt_tensor *row_major_copy(struct mt_runtime *rt, mt_role role, const char *name,
                                        const struct mt_tensor *x)
{
    struct mt_tensor *copy = mt_tensor_empty(rt, role, name, x->dtype, x->dims, x->shape);
    mt_op_unary(rt, MTK_COPY, 0, copy, x);
    return copy;
}

/* Returns `x` as `shape`: a view if its strides allow one, else a view of a row-major copy. */
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

/* The gradient in the shape of the input. */
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
    mt_graph_add(rt, NULL, view_backward, out, x, NULL);
    return out;
}

static struct mt_tensor *permuted_view(struct mt_runtime *rt, struct mt_tensor *x, const int *order)
{
    int64_t shape[MT_MAX_DIMS] = {0}, stride[MT_MAX_DIMS] = {0};
    if (x == NULL)
        return NULL;
    for (int i = 0; i < x->dims; i++) {
        assert(order[i] >= 0 && order[i] < x->dims);
        shape[i] = x->shape[order[i]];
        stride[i] = x->stride[order[i]];
    }
    return mt_tensor_view(rt, x, x->dims, shape, stride, 0);
}

/* The gradient with its dimensions permuted back. */
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
    struct mt_node *node = mt_graph_add(rt, NULL, permute_backward, out, x, NULL);
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
    mt_graph_add(rt, name, copy_backward, copy, x, NULL);
    struct mt_tensor *out = mt_view(rt, copy, dims, shape);
    mt_tensor_release(rt, copy);
    return out;
}

/* The gradient of a rotation is the inverse rotation. */
static void rotate_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                            struct mt_tensor **out)
{
    out[0] = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "grad", grad->dtype, grad->dims, grad->shape);
    mt_op_rotate(rt, node->scalar, -1, out[0], grad);
}

struct mt_tensor *mt_rotate(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double theta)
{
    struct mt_tensor *out = mt_function_output(rt, role, name, x);
    mt_op_rotate(rt, theta, 1, out, x);
    struct mt_node *node = mt_graph_add(rt, name, rotate_backward, out, x, NULL);
    mt_node_set_scalar(node, theta);
    return out;
}

/* Records that a kernel used `scratch`, and releases it. */
static void use_up(struct mt_runtime *rt, struct mt_tensor *scratch)
{
    mt_use_scratch(rt, scratch);
    mt_tensor_release(rt, scratch);
}

static struct mt_tensor *index_scratch(struct mt_runtime *rt, const char *name, const struct mt_tensor *index)
{
    return mt_tensor_empty(rt, MT_ROLE_TEMPORARY, name, MT_I64, index->dims, index->shape);
}

/* Allocates and releases the scratch of PyTorch's index_put around its scatter: tensors of the index's shape, and one
 * byte for the sort. */
static void take_scatter_scratch(struct mt_runtime *rt, const struct mt_tensor *index)
{
    struct mt_tensor *remainder = index_scratch(rt, "remainder", index),
                     *linear = index_scratch(rt, "linear_index", index);
    use_up(rt, remainder);
    struct mt_tensor *sorted = index_scratch(rt, "sorted", index), *origin = index_scratch(rt, "origin", index);
    struct mt_tensor *range = index_scratch(rt, "range", index);
    const int64_t one[] = {1};
    struct mt_tensor *sort = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "sort", MT_U8, 1, one);
    use_up(rt, sort);
    use_up(rt, range);
    use_up(rt, origin);
    use_up(rt, sorted);
    use_up(rt, linear);
}

/* Zeros, with the rows of the gradient added at their places in the table. Saved: the index. */
static void embedding_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                               struct mt_tensor **out)
{
    out[0] = mt_edge_gradient(rt, "zeros", grad->dtype, &node->edges[0]);
    mt_op_fill(rt, out[0], 0);
    take_scatter_scratch(rt, node->saved[0]);
    mt_op_scatter_add_rows(rt, out[0], node->saved[0], grad);
}

struct mt_tensor *mt_embedding(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *table,
                               struct mt_tensor *index)
{
    if (table == NULL || index == NULL)
        return NULL;
    int64_t shape[MT_MAX_DIMS];
    memcpy(shape, index->shape, sizeof shape);
    assert(table->dims == 2 && index->dims < MT_MAX_DIMS);
    shape[index->dims] = table->shape[1];
    struct mt_tensor *out =
        mt_tensor_empty(rt, mt_effective_role(rt, role), name, table->dtype, index->dims + 1, shape);
    mt_op_gather_rows(rt, out, table, index);
    mt_node_save(rt, mt_graph_add(rt, name, embedding_backward, out, table, NULL), 0, index);
    return out;
}

/* Zeros as large as x, with the gradient at the selected places. Saved: the index; x for its shape, as in
 * PyTorch. */
static void gather_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                            struct mt_tensor **out)
{
    const struct mt_edge *edge = &node->edges[0];
    out[0] = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "zeros", grad->dtype, edge->dims, edge->shape);
    mt_op_fill(rt, out[0], 0);
    mt_op_place_add(rt, out[0], node->saved[0], grad);
}

struct mt_tensor *mt_gather(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x,
                            struct mt_tensor *index)
{
    if (x == NULL || index == NULL)
        return NULL;
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, index->dims, index->shape);
    mt_op_pick(rt, out, x, index);
    struct mt_node *node = mt_graph_add(rt, name, gather_backward, out, x, NULL);
    mt_node_save(rt, node, 0, index);
    mt_node_save(rt, node, 1, x);
    return out;
}
