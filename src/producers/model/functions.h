/* Differentiable functions: each allocates its output, runs the op, and adds a node to the tape. They
 * return a new reference, or NULL once the runtime has failed. They borrow their inputs, which may then be NULL.
 *
 * `role` is MT_ROLE_ACTIVATION for an output that is kept for backward, MT_ROLE_TEMPORARY for one that is freed before;
 * without gradients every output is temporary. `name` is appended to the scope's op. Allocations, their order and
 * their lifetimes match PyTorch's eager mode; docs/eager.md gives the sources. */
#pragma once

#include "producers/model/autocast.h"
#include "producers/model/graph.h"
#include "producers/model/ops.h"
#include "producers/model/parameter.h"
#include "producers/model/tensor.h"

/* Allocates a row-major output with the shape and dtype of x, for the files of functions. NULL if x is NULL. */
static inline struct mt_tensor *mt_function_output(struct mt_runtime *rt, mt_role role, const char *name,
                                                   const struct mt_tensor *x)
{
    return x == NULL ? NULL : mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, x->dims, x->shape);
}

/* Elementwise, in the wider of two dtypes, as in PyTorch's type promotion. One operand has the shape of the output.
 * mt_exp runs in fp32 under autocast. */
struct mt_tensor *mt_add(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                         struct mt_tensor *b);
struct mt_tensor *mt_subtract(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                              struct mt_tensor *b);
struct mt_tensor *mt_multiply(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                              struct mt_tensor *b);
struct mt_tensor *mt_divide(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                            struct mt_tensor *b);
struct mt_tensor *mt_exp(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);
struct mt_tensor *mt_rsqrt(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);
struct mt_tensor *mt_sigmoid(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);
struct mt_tensor *mt_power(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double exponent);
struct mt_tensor *mt_add_scalar(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double s);

/* Computes mask (bool) ? x : other; mask and other get no gradient. */
struct mt_tensor *mt_where(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *mask,
                           struct mt_tensor *x, struct mt_tensor *other);

/* Allocates a scalar tensor with `value`. */
struct mt_tensor *mt_scalar(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype, double value);

/* Reductions over the last dimension, whose size becomes 1. mt_sum_last and mt_logsumexp run in fp32 under
 * autocast. */
struct mt_tensor *mt_sum_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);
struct mt_tensor *mt_mean_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);
struct mt_tensor *mt_max_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);

/* Computes ln of the sum of e^x over the last dimension, which is removed. */
struct mt_tensor *mt_logsumexp(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);

/* Computes the mean of all elements: a scalar. */
struct mt_tensor *mt_mean_all(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);

/* Return views of the same memory. If the strides of x need a copy, mt_view fails with MT_FAILED and mt_reshape
 * copies. */
struct mt_tensor *mt_view(struct mt_runtime *rt, struct mt_tensor *x, int dims, const int64_t *shape);
struct mt_tensor *mt_permute(struct mt_runtime *rt, struct mt_tensor *x, const int *order);
struct mt_tensor *mt_reshape(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, int dims,
                             const int64_t *shape);

/* Computes (g, m, n) = (g, m, k) · (g, k, n). */
struct mt_tensor *mt_bmm(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                         struct mt_tensor *b);

/* Computes (…, c) = rows of table (v, c). */
struct mt_tensor *mt_embedding(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *table,
                               struct mt_tensor *index);

/* Computes (…) = elements of x (…, v). */
struct mt_tensor *mt_gather(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x,
                            struct mt_tensor *index);

/* Computes the softmax of rows of x, as one op that keeps only its result, like torch.softmax. */
struct mt_tensor *mt_softmax(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);

/* Computes the softmax of rows of scale * x over the keys up to a row's query, as one op that keeps only its result. */
struct mt_tensor *mt_causal_weights(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x,
                                    double scale);

/* Computes causal attention of (B,H,T,D), as one op that keeps q, k, v, its result and each query's log-sum-exp, and
 * computes the weights again in backward. The result and the gradients have the layout (B,T,H,D) in memory. */
struct mt_tensor *mt_flash_attention(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *q,
                                     struct mt_tensor *k, struct mt_tensor *v, double scale);

/* Computes RoPE over the last two dimensions (positions, features). */
struct mt_tensor *mt_rotate(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double theta);

/* Matrix products of the model, as the reference's einsum runs them: operands are cast by autocast, permuted and, if no
 * view is possible, copied; then one batched product is computed. All blocks allocated for it have category einsum. The
 * functions return a new reference, or NULL once the runtime has failed. */

/* Returns the role of a tensor that a product reads. Under autocast, the product saves a copy instead. */
static inline mt_role mt_operand_role(const struct mt_runtime *rt)
{
    return rt->casts != NULL ? MT_ROLE_TEMPORARY : MT_ROLE_ACTIVATION;
}

/* Computes y (B,T,out) = x (B,T,in) · weightᵀ, weight (out,in), in a span `name`. The output has `role`. */
struct mt_tensor *mt_einsum_linear(struct mt_runtime *rt, const char *name, mt_role role, struct mt_tensor *x,
                                   struct mt_parameter *weight);

/* Computes Q·Kᵀ: (B,H,T,D), (B,H,T,D) to (B,H,T,T). */
struct mt_tensor *mt_einsum_scores(struct mt_runtime *rt, struct mt_tensor *q, struct mt_tensor *k);

/* Computes weights times values: (B,H,T,T), (B,H,T,D) to (B,H,T,D). The output has `role`. */
struct mt_tensor *mt_einsum_context(struct mt_runtime *rt, mt_role role, struct mt_tensor *weights,
                                    struct mt_tensor *v);
