/* The batched matrix product and its gradients. */
#include "model/function_rules.h"

/* A view of (g, m, n) as (g, n, m). */
static struct mt_tensor *transposed(struct mt_runtime *rt, struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    const int64_t shape[] = {x->shape[0], x->shape[2], x->shape[1]};
    const int64_t stride[] = {x->stride[0], x->stride[2], x->stride[1]};
    return mt_tensor_view(rt, x, 3, shape, stride, 0);
}

static struct mt_tensor *product(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                                 struct mt_tensor *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    const int64_t shape[] = {a->shape[0], a->shape[1], b->shape[2]};
    struct mt_tensor *out = mt_tensor_empty(rt, role, name, a->dtype, 3, shape);
    mt_op_matmul(rt, out, a, b);
    return out;
}

/* C = AB: dB = Aᵀ dC, dA = dC Bᵀ, in this order. Saved: B, A. */
static void bmm_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                         struct mt_tensor **out)
{
    struct mt_tensor *b = transposed(rt, node->saved[0]), *a = transposed(rt, node->saved[1]);
    if (mt_node_wants(node, 1))
        out[1] = product(rt, MT_ROLE_TEMPORARY, NULL, a, grad);
    if (mt_node_wants(node, 0))
        out[0] = product(rt, MT_ROLE_TEMPORARY, NULL, grad, b);
    mt_tensor_release(rt, a);
    mt_tensor_release(rt, b);
}

struct mt_tensor *mt_bmm(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                         struct mt_tensor *b)
{
    struct mt_tensor *out = product(rt, mt_effective_role(rt, role), name, a, b);
    struct mt_node *node = mt_graph_record(rt, name, bmm_backward, out, a, b);
    mt_node_save(rt, node, 0, b);
    mt_node_save(rt, node, 1, a);
    return out;
}
