/* Ops that do in one pass what an eager program does in several; formulas are at kernels.h. As all ops they check on every
 * device, note what they use, and do nothing after a failure or with a NULL tensor that is not said to be allowed. */
#ifndef MT_MODEL_OPS_FUSED_H
#define MT_MODEL_OPS_FUSED_H

#include "model/runtime.h"

/* MT_USAGE with what is missing if the device computes and has no kernel for one of these ops. */
mt_status mt_ops_fused_check(const struct mt_device *device);

/* RMSNorm of rows: sum = x + y, out = normalized sum * weight, rstd (…, 1) what it was scaled by. With a NULL y there is
 * no sum, and x is normalized; rstd may be NULL. `sum` may be x itself. */
struct mt_norm_tensors {
    double epsilon;
    struct mt_tensor *out, *rstd, *sum, *x, *y, *weight;
};
void mt_op_rms_norm(struct mt_runtime *rt, const struct mt_norm_tensors *norm);

/* Its gradients: dx = before + what goes through the norm, and `cast` dx once more; dweight, added to if beta is 1. `grad`
 * becomes the norm's output again. `before` (dx itself allowed) and `cast` may be NULL. */
struct mt_norm_grad_tensors {
    double beta;
    struct mt_tensor *dx, *before, *cast, *grad, *dweight, *x, *rstd, *weight;
    struct mt_tensor *partial_sum; /* (MTK_NORM_PARTS, C) */
};
void mt_op_rms_norm_grad(struct mt_runtime *rt, const struct mt_norm_grad_tensors *norm);

/* out (…, F) = silu(a) * b of in (…, 2F), a beside b; and in place, in and grad (of out) become in's gradient and out. */
void mt_op_swiglu(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in);
void mt_op_swiglu_grad(struct mt_runtime *rt, struct mt_tensor *in, struct mt_tensor *grad);

/* losses (…) of logits (…, V) by targets (…); logits become `scale` times the gradient of the sum of losses. */
void mt_op_cross_entropy(struct mt_runtime *rt, double scale, struct mt_tensor *logits, struct mt_tensor *losses,
                         const struct mt_tensor *targets);

/* A parameter as the optimizer takes it; cast (bf16) may be NULL. */
struct mt_adamw_tensors {
    struct mt_tensor *value, *mean, *square, *cast;
    const struct mt_tensor *grad;
};
void mt_op_adamw(struct mt_runtime *rt, const struct mtk_adamw *how, int count,
                 const struct mt_adamw_tensors *parameters);

#endif
