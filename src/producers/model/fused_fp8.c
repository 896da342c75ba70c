/* Products of the fused model in fp8: a layer's products with its weights. Products with the embeddings stay in bf16,
 * as is usual: they are few, and losses depend on them most.
 *
 *   forward          y  = x · Wᵀ     x e4m3 (n,in)    W  e4m3 (out,in)
 *   input's gradient dx = g · W      g e5m2 (n,out)   Wᵀ e4m3 (in,out)
 *   weight's         dW = gᵀ · x     gᵀ e5m2 (out,n)  xᵀ e4m3 (in,n)
 *
 * Matrix units read both operands along the summed dimension. So backward reads transposed copies, which the cast
 * writes in the same pass. A gradient is cast once for both of its products. Inputs are not kept in fp8 from forward to
 * backward: backward has them in bf16, kept or recomputed, and casts them to the same bits. Only their scales are kept,
 * so that they are computed once.
 *
 * A weight is cast once per step. Its copies are released after their last products: the untransposed one after
 * forward, the transposed one after backward. The optimizer does not write them with the parameter, since their scale
 * depends on all new values. */
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"

#include "kernels/fp8.h"

#include <assert.h>

/* The copies of a matrix that a cast makes. */
enum copies { AS_IT_IS = 1, TRANSPOSED = 2, BOTH = AS_IT_IS | TRANSPOSED };

bool mt_fused_is_fp8(const struct mt_fused_model *model, const struct mt_fused_weight *weight)
{
    return model->config->math == MTK_MATH_FP8 && weight->is_multiplied && weight->parameter.layer >= 0;
}

static bool has_backward(const struct mt_fused_model *model)
{
    return model->config->mode != MT_MODE_INFER;
}

static struct mt_fused_codes retain(const struct mt_fused_codes *codes)
{
    return (struct mt_fused_codes){mt_tensor_retain(codes->as_it_is), mt_tensor_retain(codes->transposed),
                                   mt_tensor_retain(codes->scale)};
}

void mt_fused_codes_drop(struct mt_runtime *rt, struct mt_fused_codes *codes)
{
    mt_tensor_drop(rt, &codes->as_it_is);
    mt_tensor_drop(rt, &codes->transposed);
    mt_tensor_drop(rt, &codes->scale);
}

/* The kinds of cast tensors: the roles of their copies and of their scales, and the dtype of the codes. */
struct kind {
    mt_role role, scale_role;
    mt_dtype dtype;
};
static const struct kind of_weight = {MT_ROLE_WEIGHT_CAST, MT_ROLE_WEIGHT_CAST, MT_F8_E4M3FN};
static const struct kind of_input = {MT_ROLE_TEMPORARY, MT_ROLE_ACTIVATION, MT_F8_E4M3FN};
static const struct kind of_last_input = {MT_ROLE_TEMPORARY, MT_ROLE_TEMPORARY, MT_F8_E4M3FN}; /* without backward */
static const struct kind of_grad = {MT_ROLE_TEMPORARY, MT_ROLE_TEMPORARY, MT_F8_E5M2};

/* Returns copies of `in`, viewed as one matrix; new references. `scale` is its scale; NULL: compute it. */
static struct mt_fused_codes cast(struct mt_runtime *rt, const struct kind *kind, enum copies copies,
                                  struct mt_tensor *scale, const struct mt_tensor *in)
{
    struct mt_fused_codes out = {.scale = mt_tensor_retain(scale)};
    const int64_t numbers = MTK_FP8_NUMBERS, columns = in->shape[in->dims - 1];
    const int64_t transposed[] = {columns, mtk_fp8_padded(mt_tensor_count(in) / columns)};
    if (scale == NULL)
        out.scale = mt_tensor_empty(rt, kind->scale_role, "scale", MT_F32, 1, &numbers);
    if (copies & AS_IT_IS)
        out.as_it_is = mt_tensor_empty_like(rt, kind->role, "fp8", kind->dtype, in);
    if (copies & TRANSPOSED)
        out.transposed = mt_tensor_empty(rt, kind->role, "fp8_turned", kind->dtype, 2, transposed);
    mt_op_cast_fp8(rt, scale == NULL ? MTK_SCALE_IS_FOUND : MTK_SCALE_IS_GIVEN, out.scale, out.as_it_is, out.transposed,
                   in);
    return out;
}

/* Returns the copies of a weight that a product reads; new references. With weight_cast `layer` the weight keeps only
 * their scale. Otherwise it keeps the copies, including those for backward, which are made at once. */
static struct mt_fused_codes weight_codes(struct mt_runtime *rt, const struct mt_fused_model *model,
                                          struct mt_fused_weight *weight, enum copies wanted)
{
    const struct mt_fused_codes *kept = &weight->codes;
    const bool is_kept = model->config->weight_cast != MT_WEIGHT_CAST_LAYER;
    if ((wanted == AS_IT_IS ? kept->as_it_is : kept->transposed) != NULL)
        return retain(kept);
    const struct mt_fused_codes codes =
        cast(rt, &of_weight, is_kept && has_backward(model) ? BOTH : wanted, kept->scale, weight->parameter.value);
    mt_fused_codes_drop(rt, &weight->codes);
    if (is_kept)
        weight->codes = retain(&codes);
    else if (has_backward(model))
        weight->codes.scale = mt_tensor_retain(codes.scale);
    return codes;
}

/* Computes out = a · bᵀ + beta * out, with the scales of both operands. */
static void multiply(struct mt_runtime *rt, double beta, struct mt_tensor *out, struct mt_tensor *a,
                     const struct mt_tensor *a_scale, struct mt_tensor *b, const struct mt_tensor *b_scale)
{
    struct mt_tensor *to = mt_fused_matrix_view(rt, out, MT_FUSED_AS_IT_IS);
    struct mt_tensor *left = mt_fused_matrix_view(rt, a, MT_FUSED_AS_IT_IS);
    struct mt_tensor *right = mt_fused_matrix_view(rt, b, MT_FUSED_TRANSPOSED);
    mt_op_product_fp8(rt, beta, to, left, a_scale, right, b_scale);
    MT_RELEASE(rt, to, left, right);
}

/* Releases the weight's copy that forward has read, unless blocks are recomputed. */
static void end_forward(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_weight *weight)
{
    if (has_backward(model) && model->config->checkpoint == MT_CHECKPOINT_OFF)
        mt_tensor_drop(rt, &weight->codes.as_it_is);
}

struct mt_tensor *mt_fused_linear_fp8(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                                      mt_role role, struct mt_tensor *x, struct mt_fused_weight *weight)
{
    const int64_t shape[] = {x->shape[0], x->shape[1], weight->parameter.value->shape[0]};
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_EINSUM, "einsum");
    struct mt_fused_codes w = weight_codes(rt, model, weight, AS_IT_IS);
    struct mt_fused_codes left =
        cast(rt, has_backward(model) ? &of_input : &of_last_input, AS_IT_IS, weight->input_scale, x);
    struct mt_tensor *y = mt_tensor_empty(rt, role, NULL, model->compute, 3, shape);
    multiply(rt, 0, y, left.as_it_is, left.scale, w.as_it_is, w.scale);
    if (has_backward(model) && weight->input_scale == NULL)
        weight->input_scale = mt_tensor_retain(left.scale);
    mt_fused_codes_drop(rt, &left);
    mt_fused_codes_drop(rt, &w);
    end_forward(rt, model, weight);
    mt_scope_leave(rt, outer);
    return y;
}

struct mt_tensor *mt_fused_input_grad_fp8(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                                          struct mt_tensor *grad, struct mt_fused_weight *weight)
{
    const int64_t shape[] = {grad->shape[0], grad->shape[1], weight->parameter.value->shape[1]};
    assert(model->grad_codes.scale == NULL); /* the last weight's gradient has been computed */
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_EINSUM, "einsum");
    model->grad_codes = cast(rt, &of_grad, BOTH, NULL, grad);
    struct mt_fused_codes w = weight_codes(rt, model, weight, TRANSPOSED);
    struct mt_tensor *dx = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "grad", model->compute, 3, shape);
    multiply(rt, 0, dx, model->grad_codes.as_it_is, model->grad_codes.scale, w.transposed, w.scale);
    mt_tensor_drop(rt, &model->grad_codes.as_it_is);
    mt_fused_codes_drop(rt, &w);
    mt_fused_codes_drop(rt, &weight->codes);
    mt_scope_leave(rt, outer);
    return dx;
}

void mt_fused_weight_grad_fp8(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                              struct mt_tensor *x, struct mt_fused_weight *weight)
{
    double beta;
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_EINSUM, "einsum");
    struct mt_tensor *sum = mt_fused_gradient(rt, weight, &beta);
    struct mt_fused_codes right = cast(rt, &of_input, TRANSPOSED, weight->input_scale, x);
    multiply(rt, beta, sum, model->grad_codes.transposed, model->grad_codes.scale, right.transposed, right.scale);
    mt_fused_codes_drop(rt, &right);
    mt_fused_codes_drop(rt, &model->grad_codes);
    mt_tensor_drop(rt, &weight->input_scale);
    mt_fused_gradient_complete(rt, model, weight);
    mt_scope_leave(rt, outer);
}
