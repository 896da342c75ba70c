/* Ops: the arithmetic on tensors that exist already. Each checks shapes, dtypes, liveness and aliasing on every device,
 * then calls the device's kernel, if it has kernels, and accounts for the cost. None allocates. So a device that
 * executes nothing tests as strictly as one that does.
 *
 * Operands are broadcast to the output's shape, trailing dimensions aligned. After a failure of the runtime, and with a
 * NULL tensor, they do nothing. */
#ifndef MT_MODEL_OPS_H
#define MT_MODEL_OPS_H

#include "model/runtime.h"

void mt_op_fill(struct mt_runtime *rt, struct mt_tensor *out, double value);
void mt_op_unary(struct mt_runtime *rt, mtk_unary_op op, double s, struct mt_tensor *out, const struct mt_tensor *in);
void mt_op_binary(struct mt_runtime *rt, mtk_binary_op op, double s, struct mt_tensor *out, const struct mt_tensor *a,
                  const struct mt_tensor *b);
void mt_op_ternary(struct mt_runtime *rt, mtk_ternary_op op, double s, double t, struct mt_tensor *out,
                   const struct mt_tensor *a, const struct mt_tensor *b, const struct mt_tensor *c);

/* Over every dimension in which out, broadcast to in, has size 1. */
void mt_op_reduce(struct mt_runtime *rt, mtk_reduce_op op, struct mt_tensor *out, const struct mt_tensor *in);

void mt_op_lower_triangle(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in);

/* out = alpha * product + beta * out, the product of (…, m, k) and (…, k, n), of 3 or 4 dimensions; operands of bf16 may
 * have an output of fp32. Takes the runtime's workspace. */
void mt_op_product(struct mt_runtime *rt, double alpha, double beta, struct mt_tensor *out, const struct mt_tensor *a,
                   const struct mt_tensor *b);
/* out = product. */
void mt_op_matmul(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *a, const struct mt_tensor *b);

/* out (…, c) = rows of table (v, c) by index (…). */
void mt_op_gather_rows(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *table,
                       const struct mt_tensor *index);
/* table (v, c) += rows of in (…, c), by index (…). */
void mt_op_scatter_add_rows(struct mt_runtime *rt, struct mt_tensor *table, const struct mt_tensor *index,
                            const struct mt_tensor *in);

/* out (…) = elements of in (…, v), by index (…). */
void mt_op_pick(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in,
                const struct mt_tensor *index);
/* out (…, v) += in (…) at index (…). */
void mt_op_place_add(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *index,
                     const struct mt_tensor *in);

/* RoPE over the last two dimensions (positions, features); direction 1 rotates, -1 rotates back. */
void mt_op_rotate(struct mt_runtime *rt, double theta, int direction, struct mt_tensor *out,
                  const struct mt_tensor *in);

/* Softmax of rows of scale * in, over the keys that a query sees; lse (…, 1) may be NULL. Like the three ops after it, it
 * fails on a device that computes and has no kernel for it. */
void mt_op_softmax(struct mt_runtime *rt, double scale, mtk_keys keys, struct mt_tensor *out, struct mt_tensor *lse,
                   const struct mt_tensor *in);
/* Its gradient from `kept`: the weights if lse is NULL, else what the softmax read. */
void mt_op_softmax_grad(struct mt_runtime *rt, double scale, mtk_keys keys, struct mt_tensor *out,
                        const struct mt_tensor *grad, const struct mt_tensor *kept, const struct mt_tensor *lse);

/* The tensors of causal attention and, for its gradient, what comes of them: (B,H,T,D) but lse and delta, (B,H,T,1). */
struct mt_attention {
    double scale;
    struct mt_tensor *q, *k, *v, *out;
    struct mt_tensor *lse; /* NULL: not wanted */
    struct mt_tensor *grad, *delta, *dq, *dk, *dv;
};

/* out and lse of q, k, v. D is at most MTK_MOST_HEAD_FEATURES. */
void mt_op_attention(struct mt_runtime *rt, const struct mt_attention *a);
/* dq, dk, dv and the scratch delta of everything else. */
void mt_op_attention_grad(struct mt_runtime *rt, const struct mt_attention *a);

/* center + (2 unit - 1) * spread, see kernels.h. */
void mt_op_random(struct mt_runtime *rt, struct mt_tensor *out, uint64_t generator, double center, double spread);

#endif
