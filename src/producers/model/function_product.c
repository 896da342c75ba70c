/* Matrix products, softmax and attention as single ops, and their gradients. An op that computes several steps at once
 * saves memory because it does not keep the tensors between them. */
#include "producers/model/autocast.h"
#include "producers/model/functions.h"
#include "producers/model/use.h"

#include <assert.h>
#include <string.h>

/* Returns a view of (g, m, n) as (g, n, m). */
static struct mt_tensor *transposed(struct mt_runtime *rt, struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    assert(x->dims == 3);
    const int64_t shape[] = {x->shape[0], x->shape[2], x->shape[1]};
    const int64_t stride[] = {x->stride[0], x->stride[2], x->stride[1]};
    return mt_tensor_view(rt, x, 3, shape, stride, 0);
}

/* Computes (g, m, n) = a (g, m, k) · b (g, k, n). */
static struct mt_tensor *product(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                                 struct mt_tensor *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    assert(a->dims == 3 && b->dims == 3 && a->dtype == b->dtype);
    const int64_t shape[] = {a->shape[0], a->shape[1], b->shape[2]};
    struct mt_tensor *out = mt_tensor_empty(rt, role, name, a->dtype, 3, shape);
    mt_op_product(rt, 1, 0, out, a, b);
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
    MT_RELEASE(rt, a, b);
}

struct mt_tensor *mt_bmm(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                         struct mt_tensor *b)
{
    struct mt_tensor *out = product(rt, mt_effective_role(rt, role), name, a, b);
    struct mt_node *node = mt_graph_add(rt, name, bmm_backward, out, a, b);
    mt_node_save(rt, node, 0, b);
    mt_node_save(rt, node, 1, a);
    return out;
}

/* Allocates one number for each row of x: (…, 1), in the dtype of sums. */
static struct mt_tensor *row_column(struct mt_runtime *rt, mt_role role, const char *name, const struct mt_tensor *x)
{
    int64_t shape[MT_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->dims - 1] = 1;
    return mt_tensor_empty(rt, role, name, mt_sum_dtype(x->dtype), x->dims, shape);
}

/* Allocates the product of gradient and weights. PyTorch does the same: its kernel reads the product instead of the
 * gradient (softmax_backward_cuda_out in aten/src/ATen/native/cuda/SoftMax.cu). Saved: the result. */
static void softmax_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                             struct mt_tensor **out)
{
    out[0] = mt_tensor_temporary_like(rt, "grad", grad);
    struct mt_tensor *product = mt_tensor_temporary_like(rt, "product", grad);
    mt_use_scratch(rt, product);
    mt_op_softmax_grad(rt, 1, MTK_KEYS_ALL, out[0], grad, node->saved[0]);
    mt_tensor_release(rt, product);
}

struct mt_tensor *mt_softmax(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *input = mt_autocast_fp32(rt, MT_ROLE_TEMPORARY, x);
    struct mt_tensor *out = mt_function_output(rt, role, name, input);
    mt_op_softmax(rt, 1, MTK_KEYS_ALL, out, input);
    struct mt_node *node = mt_graph_add(rt, name, softmax_backward, out, input, NULL);
    mt_node_save(rt, node, 0, out);
    mt_tensor_release(rt, input);
    return out;
}

/* Saved: the result. */
static void causal_weights_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                                    struct mt_tensor **out)
{
    out[0] = mt_tensor_temporary_like(rt, "grad", grad);
    mt_op_softmax_grad(rt, node->scalar, MTK_KEYS_UP_TO_QUERY, out[0], grad, node->saved[0]);
}

struct mt_tensor *mt_causal_weights(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x,
                                    double scale)
{
    struct mt_tensor *out = mt_function_output(rt, role, name, x);
    mt_op_softmax(rt, scale, MTK_KEYS_UP_TO_QUERY, out, x);
    struct mt_node *node = mt_graph_add(rt, name, causal_weights_backward, out, x, NULL);
    mt_node_set_scalar(node, scale);
    mt_node_save(rt, node, 0, out);
    return out;
}

/* Allocates (B,H,T,D) like `like`, with the layout (B,T,H,D) in memory, so that heads are concatenated and split
 * without a copy. */
static struct mt_tensor *heads_by_position(struct mt_runtime *rt, mt_role role, const char *name,
                                           const struct mt_tensor *like)
{
    assert(like->dims == 4);
    const int64_t B = like->shape[0], H = like->shape[1], T = like->shape[2], D = like->shape[3];
    struct mt_tensor *memory = mt_tensor_empty(rt, role, name, like->dtype, 4, (const int64_t[]){B, T, H, D});
    if (memory == NULL)
        return NULL;
    struct mt_tensor *heads = mt_tensor_view(rt, memory, 4, like->shape, (const int64_t[]){T * H * D, D, H * D, 1}, 0);
    mt_tensor_release(rt, memory);
    return heads;
}

/* Saved: q, k, v, the result, the log-sum-exp. */
static void flash_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                           struct mt_tensor **out)
{
    struct mt_tensor *const *saved = node->saved;
    struct mt_attention attention = {.scale = node->scalar,
                                     .q = saved[0],
                                     .k = saved[1],
                                     .v = saved[2],
                                     .out = saved[3],
                                     .lse = saved[4],
                                     .grad = grad};
    attention.dq = heads_by_position(rt, MT_ROLE_TEMPORARY, "grad_q", grad);
    attention.dk = heads_by_position(rt, MT_ROLE_TEMPORARY, "grad_k", grad);
    attention.dv = heads_by_position(rt, MT_ROLE_TEMPORARY, "grad_v", grad);
    attention.delta = row_column(rt, MT_ROLE_TEMPORARY, "delta", grad);
    mt_op_attention_grad(rt, &attention);
    mt_tensor_release(rt, attention.delta);
    struct mt_tensor *const gradients[] = {attention.dq, attention.dk, attention.dv};
    for (int i = 0; i < 3; i++) {
        if (mt_node_wants(node, i))
            out[i] = gradients[i];
        else
            mt_tensor_release(rt, gradients[i]);
    }
}

struct mt_tensor *mt_flash_attention(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *q,
                                     struct mt_tensor *k, struct mt_tensor *v, double scale)
{
    if (q == NULL || k == NULL || v == NULL)
        return NULL;
    struct mt_attention attention = {.scale = scale, .q = q, .k = k, .v = v};
    attention.out = heads_by_position(rt, mt_effective_role(rt, role), name, q);
    attention.lse = rt->grad_enabled ? row_column(rt, MT_ROLE_ACTIVATION, "lse", q) : NULL;
    mt_op_attention(rt, &attention);
    struct mt_node *node =
        mt_graph_add_inputs(rt, name, flash_backward, attention.out, (const struct mt_tensor *[]){q, k, v}, 3);
    mt_node_set_scalar(node, scale);
    struct mt_tensor *const kept[] = {q, k, v, attention.out, attention.lse};
    for (int i = 0; i < 5; i++)
        mt_node_save(rt, node, i, kept[i]);
    mt_tensor_release(rt, attention.lse);
    return attention.out;
}

/* Computes x · weightᵀ in the scope of a linear map. */
static struct mt_tensor *linear_product(struct mt_runtime *rt, mt_role role, struct mt_tensor *x,
                                        struct mt_parameter *weight)
{
    static const int swap_last[] = {0, 2, 1};
    if (x == NULL)
        return NULL;
    assert(x->dims == 3 && x->shape[2] == weight->value->shape[1]);
    const int64_t in = weight->value->shape[1], out = weight->value->shape[0], rows = mt_tensor_count(x) / in;
    struct mt_tensor *x_operand = mt_autocast_operand(rt, MT_ROLE_ACTIVATION, x);
    struct mt_tensor *w_operand = mt_autocast_weight(rt, weight);
    struct mt_tensor *a = mt_reshape(rt, MT_ROLE_ACTIVATION, "copy", x_operand, 3, (const int64_t[]){1, rows, in});
    struct mt_tensor *w = mt_view(rt, w_operand, 3, (const int64_t[]){1, out, in});
    struct mt_tensor *b = mt_permute(rt, w, swap_last);
    struct mt_tensor *product = mt_bmm(rt, role, NULL, a, b);
    struct mt_tensor *y = mt_view(rt, product, 3, (const int64_t[]){x->shape[0], x->shape[1], out});
    MT_RELEASE(rt, product, b, w, a, w_operand, x_operand);
    return y;
}

struct mt_tensor *mt_einsum_linear(struct mt_runtime *rt, const char *name, mt_role role, struct mt_tensor *x,
                                   struct mt_parameter *weight)
{
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_EINSUM, "einsum");
    struct mt_tensor *y = linear_product(rt, role, x, weight);
    mt_scope_leave(rt, outer);
    return y;
}

/* Folds batch and heads of (B,H,M,N) into one dimension. Copies if the strides require it. */
static struct mt_tensor *fold_heads(struct mt_runtime *rt, struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    assert(x->dims == 4);
    const int64_t shape[] = {x->shape[0] * x->shape[1], x->shape[2], x->shape[3]};
    return mt_reshape(rt, MT_ROLE_ACTIVATION, "copy", x, 3, shape);
}

/* Computes (B,H,M,K) · (B,H,K,N), shaped (B,H,M,N). */
static struct mt_tensor *head_product(struct mt_runtime *rt, mt_role role, struct mt_tensor *left,
                                      struct mt_tensor *right)
{
    struct mt_tensor *a = fold_heads(rt, left), *b = fold_heads(rt, right);
    struct mt_tensor *product = mt_bmm(rt, role, NULL, a, b);
    struct mt_tensor *out = NULL;
    if (product != NULL) {
        const int64_t shape[] = {left->shape[0], left->shape[1], left->shape[2], right->shape[3]};
        out = mt_view(rt, product, 4, shape);
    }
    MT_RELEASE(rt, product, b, a);
    return out;
}

struct mt_tensor *mt_einsum_scores(struct mt_runtime *rt, struct mt_tensor *q, struct mt_tensor *k)
{
    static const int swap_last[] = {0, 1, 3, 2};
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_EINSUM, "einsum");
    struct mt_tensor *q_operand = mt_autocast_operand(rt, MT_ROLE_TEMPORARY, q);
    struct mt_tensor *k_operand = mt_autocast_operand(rt, MT_ROLE_TEMPORARY, k);
    struct mt_tensor *k_transposed = mt_permute(rt, k_operand, swap_last);
    struct mt_tensor *out = head_product(rt, MT_ROLE_TEMPORARY, q_operand, k_transposed);
    MT_RELEASE(rt, k_transposed, k_operand, q_operand);
    rt->scope = outer;
    return out;
}

struct mt_tensor *mt_einsum_context(struct mt_runtime *rt, mt_role role, struct mt_tensor *weights, struct mt_tensor *v)
{
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_EINSUM, "einsum");
    struct mt_tensor *weights_operand = mt_autocast_operand(rt, MT_ROLE_ACTIVATION, weights);
    struct mt_tensor *v_operand = mt_autocast_operand(rt, MT_ROLE_TEMPORARY, v);
    struct mt_tensor *out = head_product(rt, role, weights_operand, v_operand);
    MT_RELEASE(rt, v_operand, weights_operand);
    rt->scope = outer;
    return out;
}
