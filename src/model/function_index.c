/* Functions that select by an index, and their gradients. */
#include "model/function_rules.h"
#include "model/use.h"

static void use_up(struct mt_runtime *rt, struct mt_tensor *scratch)
{
    mt_use_scratch(rt, scratch);
    mt_tensor_release(rt, scratch);
}

/* PyTorch's index_put takes these around its scatter, each of the index's shape, and one byte of the sort's. */
static void take_scatter_scratch(struct mt_runtime *rt, const struct mt_tensor *index)
{
    struct mt_tensor *remainder =
        mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "remainder", MT_I64, index->dims, index->shape);
    struct mt_tensor *linear =
        mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "linear_index", MT_I64, index->dims, index->shape);
    use_up(rt, remainder);
    struct mt_tensor *sorted = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "sorted", MT_I64, index->dims, index->shape);
    struct mt_tensor *origin = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "origin", MT_I64, index->dims, index->shape);
    struct mt_tensor *range = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "range", MT_I64, index->dims, index->shape);
    const int64_t one[] = {1};
    struct mt_tensor *sort = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "sort", MT_U8, 1, one);
    use_up(rt, sort);
    use_up(rt, range);
    use_up(rt, origin);
    use_up(rt, sorted);
    use_up(rt, linear);
}

/* Zeros, and the rows of the gradient added where they were taken from. Saved: the index. */
static void embedding_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                               struct mt_tensor **out)
{
    out[0] = mt_gradient_output(rt, "zeros", grad->dtype, &node->edges[0]);
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
    for (int i = 0; i < index->dims; i++)
        shape[i] = index->shape[i];
    shape[index->dims] = table->shape[1];
    struct mt_tensor *out =
        mt_tensor_empty(rt, mt_effective_role(rt, role), name, table->dtype, index->dims + 1, shape);
    mt_op_gather_rows(rt, out, table, index);
    mt_node_save(rt, mt_graph_record(rt, name, embedding_backward, out, table, NULL), 0, index);
    return out;
}

/* Zeros as large as x, and the gradient at the places that were taken. Saved: the index, x (for its shape, as PyTorch
 * does). */
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
    struct mt_node *node = mt_graph_record(rt, name, gather_backward, out, x, NULL);
    mt_node_save(rt, node, 0, index);
    mt_node_save(rt, node, 1, x);
    return out;
}
