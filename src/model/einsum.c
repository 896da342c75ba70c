#include "model/einsum.h"

#include "model/autocast.h"
#include "model/functions.h"

#include <assert.h>

/* Computes x · weightᵀ in the scope of a linear map. */
static struct mt_tensor *linear_product(struct mt_runtime *rt, mt_role role, struct mt_tensor *x,
                                        struct mt_parameter *weight)
{
    static const int swap_last[] = {0, 2, 1};
    if (x == NULL)
        return NULL;
    assert(x->dims == 3 && x->shape[2] == weight->value->shape[1]);
    const int64_t in = weight->value->shape[1], out = weight->value->shape[0], rows = mt_tensor_count(x) / in;
    struct mt_tensor *x_operand = mt_autocast_operand(rt, MT_ROLE_SAVED, x);
    struct mt_tensor *w_operand = mt_autocast_weight(rt, weight);
    struct mt_tensor *a = mt_reshape(rt, MT_ROLE_SAVED, "copy", x_operand, 3, (const int64_t[]){1, rows, in});
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

/* Folds batch and heads of (B,H,M,N) into one dimension, copying where the strides need it. */
static struct mt_tensor *fold_heads(struct mt_runtime *rt, struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    assert(x->dims == 4);
    const int64_t shape[] = {x->shape[0] * x->shape[1], x->shape[2], x->shape[3]};
    return mt_reshape(rt, MT_ROLE_SAVED, "copy", x, 3, shape);
}

/* Computes (B,H,M,K) · (B,H,K,N), which is (B,H,M,N). */
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
    struct mt_tensor *weights_operand = mt_autocast_operand(rt, MT_ROLE_SAVED, weights);
    struct mt_tensor *v_operand = mt_autocast_operand(rt, MT_ROLE_TEMPORARY, v);
    struct mt_tensor *out = head_product(rt, role, weights_operand, v_operand);
    MT_RELEASE(rt, v_operand, weights_operand);
    rt->scope = outer;
    return out;
}
