/* Ops: arithmetic on existing tensors. Each checks shapes, dtypes, liveness and aliasing on every device, accounts for
 * its cost, and calls the device's kernel if the device computes. None allocates, except for the workspaces of matrix
 * products. So a device that computes nothing checks as strictly as one that does.
 *
 * Operands are broadcast to the output's shape, trailing dimensions aligned. After a failure of the runtime an op does
 * nothing. A NULL tensor is a failure unless it is documented as allowed. Formulas are in kernels.h. */
#pragma once

#include "producers/model/tensor.h"

/* Compute out = value; op(in); op(a, b); op(a, b, c). The op's formula defines the scalars s and t. */
void mt_op_fill(struct mt_runtime *rt, struct mt_tensor *out, double value);
void mt_op_unary(struct mt_runtime *rt, mtk_unary_op op, double s, struct mt_tensor *out, const struct mt_tensor *in);
void mt_op_binary(struct mt_runtime *rt, mtk_binary_op op, double s, struct mt_tensor *out, const struct mt_tensor *a,
                  const struct mt_tensor *b);
void mt_op_ternary(struct mt_runtime *rt, mtk_ternary_op op, double s, double t, struct mt_tensor *out,
                   const struct mt_tensor *a, const struct mt_tensor *b, const struct mt_tensor *c);

/* Reduces over every dimension in which out, broadcast to in, has size 1. */
void mt_op_reduce(struct mt_runtime *rt, mtk_reduce_op op, struct mt_tensor *out, const struct mt_tensor *in);

/* Copies the lower triangle of the last two dimensions and fills the rest with 0. */
void mt_op_lower_triangle(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in);

/* Computes out = alpha * product + beta * out, the product of (…, m, k) and (…, k, n), with 3 or 4 dimensions.
 * Operands of bf16 may have an output of fp32. Allocates the phase's workspace at its first use. */
void mt_op_product(struct mt_runtime *rt, double alpha, double beta, struct mt_tensor *out, const struct mt_tensor *a,
                   const struct mt_tensor *b);

/* Computes out = product of a and b, each times its scale, + beta * out. a and b are fp8: both e4m3, or one of them
 * e5m2. `out` is bf16 or fp32, with 3 dimensions, the first of size 1. a and out have dense rows, b dense columns. The
 * inner size and the row length of out are multiples of 16, addresses of MTK_FP8_ALIGNMENT. Scales come from
 * mt_op_cast_fp8. */
void mt_op_product_fp8(struct mt_runtime *rt, double beta, struct mt_tensor *out, const struct mt_tensor *a,
                       const struct mt_tensor *a_scale, const struct mt_tensor *b, const struct mt_tensor *b_scale);

/* Computes the scale (MTK_FP8_NUMBERS) of `in` (…, C), fp32 or bf16, unless it is given. With the scale, computes
 * `codes` (…, C) and their transpose `turned` (C, n rounded up to a multiple of 16), where n is the number of rows of
 * `in` as one matrix. Both have the same fp8 dtype, and one may be NULL. C is a multiple of 16. */
void mt_op_cast_fp8(struct mt_runtime *rt, mtk_scale_origin origin, struct mt_tensor *scale, struct mt_tensor *codes,
                    struct mt_tensor *turned, const struct mt_tensor *in);

/* Fails with MT_USAGE if the device's card has no matrix units for fp8, or the device computes and lacks the kernel. */
mt_status mt_op_fp8_check(const struct mt_device *device);

/* Frees the workspaces of matrix products. */
void mt_op_workspaces_release(struct mt_runtime *rt);

/* Computes out (…, c) = rows of table (v, c) by index (…). */
void mt_op_gather_rows(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *table,
                       const struct mt_tensor *index);
/* Computes table (v, c) += rows of in (…, c), by index (…). */
void mt_op_scatter_add_rows(struct mt_runtime *rt, struct mt_tensor *table, const struct mt_tensor *index,
                            const struct mt_tensor *in);

/* Computes out (…) = elements of in (…, v), by index (…). */
void mt_op_pick(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in,
                const struct mt_tensor *index);
/* Computes out (…, v) += in (…) at index (…). */
void mt_op_place_add(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *index,
                     const struct mt_tensor *in);

/* Computes RoPE over the last two dimensions (positions, features); direction 1 rotates, -1 rotates back. */
void mt_op_rotate(struct mt_runtime *rt, double theta, int direction, struct mt_tensor *out,
                  const struct mt_tensor *in);

/* Fills `out` with center + (2 unit - 1) * spread, unit from the generator. */
void mt_op_random(struct mt_runtime *rt, struct mt_tensor *out, uint64_t generator, double center, double spread);

/* Computes the softmax of rows of scale * in, over the keys that a query sees. This op and
 * the next three fail with MT_USAGE on a device that computes and has no kernel for them. */
void mt_op_softmax(struct mt_runtime *rt, double scale, mtk_keys keys, struct mt_tensor *out,
                   const struct mt_tensor *in);
/* Computes the gradient of softmax from its result, the weights. */
void mt_op_softmax_grad(struct mt_runtime *rt, double scale, mtk_keys keys, struct mt_tensor *out,
                        const struct mt_tensor *grad, const struct mt_tensor *weights);

/* The tensors of causal attention and of its gradient: lse and delta are (B,H,T,1), the others (B,H,T,D). */
struct mt_attention {
    double scale;
    struct mt_tensor *q, *k, *v, *out;
    struct mt_tensor *lse; /* NULL: not wanted */
    struct mt_tensor *grad, *delta, *dq, *dk, *dv;
};

/* Writes out and lse from q, k, v. D is at most MTK_MOST_HEAD_FEATURES. */
void mt_op_attention(struct mt_runtime *rt, const struct mt_attention *a);
/* Writes dq, dk, dv and the scratch delta from the other tensors. Allocates the card's workspace for the call. */
void mt_op_attention_grad(struct mt_runtime *rt, const struct mt_attention *a);

/* Fails with MT_USAGE if the device computes and lacks a kernel of one of the ops below. These do in one pass what an
 * eager program does in several. */
mt_status mt_ops_fused_check(const struct mt_device *device);

/* RMSNorm of rows: sum = x + y, out = normalized sum * weight, rstd (…, 1) its scale. Without y there is no sum, and
 * x is normalized. */
struct mt_norm_tensors {
    double epsilon;
    struct mt_tensor *out;
    struct mt_tensor *rstd; /* NULL: not wanted */
    struct mt_tensor *sum;  /* may be x itself; unused without y */
    struct mt_tensor *x;
    struct mt_tensor *y; /* NULL: nothing is added */
    struct mt_tensor *weight;
};
void mt_op_rms_norm(struct mt_runtime *rt, const struct mt_norm_tensors *norm);

/* The gradients of RMSNorm: dx = before + the gradient through the norm, cast = dx, dweight, and `grad` becomes the
 * norm's output again. */
struct mt_norm_grad_tensors {
    double beta; /* 1 adds to dweight, 0 writes it */
    struct mt_tensor *dx;
    struct mt_tensor *before; /* may be dx itself; NULL: 0 */
    struct mt_tensor *cast;   /* NULL: not wanted */
    struct mt_tensor *grad, *dweight, *x, *rstd, *weight;
    struct mt_tensor *partial_sum; /* scratch (MTK_NORM_PARTS, C) */
};
void mt_op_rms_norm_grad(struct mt_runtime *rt, const struct mt_norm_grad_tensors *norm);

/* Computes out (…, F) = silu(a) * b of in (…, 2F), whose rows are a followed by b. */
void mt_op_swiglu(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in);
/* Computes the gradient in place: `in` becomes its gradient, and `grad`, the gradient of out, becomes out again. */
void mt_op_swiglu_grad(struct mt_runtime *rt, struct mt_tensor *in, struct mt_tensor *grad);

/* The first computes the gate with the product before it: in = x (…, C) · weight (2F, C)ᵀ, and out as above. The second
 * computes the gate's gradient with the product before it: `grad` (…, C) · weight (C, F) is the gradient of out; out is
 * written. For shapes that mtk_gate_in_product names for the card. */
void mt_op_swiglu_product(struct mt_runtime *rt, struct mt_tensor *in, struct mt_tensor *out /* NULL: not wanted */,
                          const struct mt_tensor *x, const struct mt_tensor *weight);
void mt_op_swiglu_product_grad(struct mt_runtime *rt, struct mt_tensor *in, struct mt_tensor *out,
                               const struct mt_tensor *grad, const struct mt_tensor *weight);

/* Computes losses (…) of logits (…, V) by targets (…). The logits become `scale` times the gradient of the sum of
 * losses. */
void mt_op_cross_entropy(struct mt_runtime *rt, double scale, struct mt_tensor *logits, struct mt_tensor *losses,
                         const struct mt_tensor *targets);

/* The tensors of a parameter for the optimizer. */
struct mt_adamw_tensors {
    struct mt_tensor *value, *mean, *square;
    struct mt_tensor *scales; /* of 8-bit moments, (blocks, 2); NULL without */
    struct mt_tensor *cast;   /* bf16; NULL: not wanted */
    const struct mt_tensor *grad;
    uint64_t generator; /* of the rounding of moments in bf16 */
};
/* Makes one step of AdamW over `count` parameters. */
void mt_op_adamw(struct mt_runtime *rt, const struct mtk_adamw *how, int count,
                 const struct mt_adamw_tensors *parameters);
