/* Differentiable functions: each takes its output from the allocator, runs the op, and records how the gradient goes
 * back. They return a new reference, or NULL once the runtime has failed, and borrow their inputs, which may be NULL
 * then.
 *
 * `role` says whether the output will be kept for backward (MT_ROLE_SAVED) or dies before; without gradients it is
 * temporary in any case. `name` is appended to the scope's op. What they allocate, in which order, and when it is freed
 * follows PyTorch's eager mode; docs/eager.md tells where that can be seen. */
#ifndef MT_MODEL_FUNCTIONS_H
#define MT_MODEL_FUNCTIONS_H

#include "model/graph.h"
#include "model/ops.h"

/* Elementwise. Of two dtypes the wider wins, as in PyTorch's type promotion. */
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

/* x in another dtype; x itself (one more reference) if it has that dtype already. */
struct mt_tensor *mt_cast(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, mt_dtype dtype);

/* mask (bool) ? x : other; no gradient goes into mask or other. */
struct mt_tensor *mt_where(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *mask,
                           struct mt_tensor *x, struct mt_tensor *other);

/* A scalar tensor. */
struct mt_tensor *mt_scalar(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype, double value);

/* Over the last dimension, which stays as 1. */
struct mt_tensor *mt_sum_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);
struct mt_tensor *mt_mean_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);
struct mt_tensor *mt_max_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);

/* Over the last dimension, which goes; ln of the sum of e^x. */
struct mt_tensor *mt_logsumexp(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);

/* Over everything: a scalar. */
struct mt_tensor *mt_mean_all(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);

/* Another look at the same memory. mt_view fails where it would need a copy; mt_reshape copies then. */
struct mt_tensor *mt_view(struct mt_runtime *rt, struct mt_tensor *x, int dims, const int64_t *shape);
struct mt_tensor *mt_permute(struct mt_runtime *rt, struct mt_tensor *x, const int *order);
struct mt_tensor *mt_reshape(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, int dims,
                             const int64_t *shape);

/* (g, m, n) = (g, m, k) · (g, k, n). */
struct mt_tensor *mt_bmm(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *a,
                         struct mt_tensor *b);

/* (…, c) = rows of table (v, c). */
struct mt_tensor *mt_embedding(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *table,
                               struct mt_tensor *index);

/* (…) = elements of x (…, v). */
struct mt_tensor *mt_gather(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x,
                            struct mt_tensor *index);

/* Softmax of rows of x, as one op that keeps what it read, and a row's log-sum-exp. Under autocast x is read as it is and
 * the result is what the product that follows reads. */
struct mt_tensor *mt_softmax(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x);

/* Softmax of rows of scale * x over the keys up to a row's query, as one op that keeps its result alone. */
struct mt_tensor *mt_causal_weights(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x,
                                    double scale);

/* Causal attention of (B,H,T,D), as one op that keeps q, k, v, its result and each query's log-sum-exp, and computes the
 * weights anew in backward. The result lies in memory as (B,T,H,D), and so do the gradients. */
struct mt_tensor *mt_flash_attention(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *q,
                                     struct mt_tensor *k, struct mt_tensor *v, double scale);

/* RoPE over the last two dimensions (positions, features). */
struct mt_tensor *mt_rotate(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x, double theta);

/* `x` summed to the shape of the input that `edge` leads to, which broadcasts to its own; with the staging that
 * PyTorch's reduction takes on the reference card. No gradient. */
struct mt_tensor *mt_sum_to_input(struct mt_runtime *rt, const char *name, const struct mt_tensor *x,
                                  const struct mt_edge *edge);

/* The staging of a sum over the rows of (rows, columns), as PyTorch's reduction launcher on the reference card splits
 * it over blocks that meet in global memory: bytes of partial sums and of counters, both 0 where it does not. */
void mt_reduction_staging(int64_t rows, int64_t columns, int64_t *out_staging_bytes, int64_t *out_counter_bytes);

#endif
