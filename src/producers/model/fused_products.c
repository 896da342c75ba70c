/* Products of the fused model with its stored weights, and the weights' gradients. */
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"

#include <assert.h>

struct mt_tensor *mt_fused_matrix_view(struct mt_runtime *rt, struct mt_tensor *tensor, mt_fused_turn turn)
{
    if (tensor == NULL)
        return NULL;
    int64_t columns = tensor->shape[tensor->dims - 1], rows = mt_tensor_count(tensor) / columns;
    if (turn == MT_FUSED_AS_IT_IS)
        return mt_tensor_view(rt, tensor, 3, (const int64_t[]){1, rows, columns},
                              (const int64_t[]){rows * columns, columns, 1}, 0);
    return mt_tensor_view(rt, tensor, 3, (const int64_t[]){1, columns, rows},
                          (const int64_t[]){rows * columns, 1, columns}, 0);
}

/* Computes out = a · b + beta * out, each viewed as one matrix: its last dimension by all others. */
static void multiply(struct mt_runtime *rt, double beta, struct mt_tensor *out, struct mt_tensor *a,
                     mt_fused_turn turn_a, struct mt_tensor *b, mt_fused_turn turn_b)
{
    struct mt_tensor *to = mt_fused_matrix_view(rt, out, MT_FUSED_AS_IT_IS);
    struct mt_tensor *left = mt_fused_matrix_view(rt, a, turn_a), *right = mt_fused_matrix_view(rt, b, turn_b);
    mt_op_product(rt, 1, beta, to, left, right);
    MT_RELEASE(rt, to, left, right);
}

/* Returns a copy of the weight in bf16; a new reference. */
static struct mt_tensor *cast_weight(struct mt_runtime *rt, mt_category category, const struct mt_fused_weight *weight)
{
    struct mt_scope outer = mt_scope_category(rt, category, "cast");
    struct mt_tensor *value = weight->parameter.value;
    struct mt_tensor *cast = mt_tensor_empty_like(rt, MT_ROLE_WEIGHT_CAST, NULL, MT_BF16, value);
    mt_op_unary(rt, MTK_COPY, 0, cast, value);
    rt->scope = outer;
    return cast;
}

void mt_fused_cast_begin(struct mt_runtime *rt, struct mt_fused_weight *weight)
{
    weight->cast = cast_weight(rt, MT_CATEGORY_PARAM, weight);
}

struct mt_tensor *mt_fused_operand(struct mt_runtime *rt, const struct mt_fused_model *model,
                                   struct mt_fused_weight *weight)
{
    if (!model->config->autocast)
        return mt_tensor_retain(weight->parameter.value);
    if (model->config->weight_cast == MT_WEIGHT_CAST_LAYER)
        return cast_weight(rt, MT_CATEGORY_EINSUM, weight);
    if (weight->cast == NULL)
        weight->cast = cast_weight(rt, MT_CATEGORY_EINSUM, weight);
    return mt_tensor_retain(weight->cast);
}

void mt_fused_operand_done(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_weight *weight)
{
    if (model->config->weight_cast == MT_WEIGHT_CAST_REGION)
        mt_tensor_drop(rt, &weight->cast);
}

/* Computes x · weight, or x · weightᵀ, in a span `name`; `op` is appended to the output's op. */
static struct mt_tensor *project(struct mt_runtime *rt, const struct mt_fused_model *model, const char *name,
                                 mt_role role, const char *op, struct mt_tensor *x, struct mt_fused_weight *weight,
                                 mt_fused_turn turn)
{
    const int64_t *weight_shape = weight->parameter.value->shape;
    assert(x->dims == 3 && weight->is_multiplied && x->shape[2] == weight_shape[turn == MT_FUSED_TRANSPOSED]);
    const int64_t shape[] = {x->shape[0], x->shape[1], weight_shape[turn != MT_FUSED_TRANSPOSED]};
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_EINSUM, "einsum");
    struct mt_tensor *w = mt_fused_operand(rt, model, weight);
    struct mt_tensor *y = mt_tensor_empty(rt, role, op, model->compute, 3, shape);
    multiply(rt, 0, y, x, MT_FUSED_AS_IT_IS, w, turn);
    mt_tensor_release(rt, w);
    if (turn == MT_FUSED_AS_IT_IS) /* the gradient of the input is the last product with a weight */
        mt_fused_operand_done(rt, model, weight);
    mt_scope_leave(rt, outer);
    return y;
}

struct mt_tensor *mt_fused_linear(struct mt_runtime *rt, struct mt_fused_model *model, const char *name, mt_role role,
                                  struct mt_tensor *x, struct mt_fused_weight *weight)
{
    if (x == NULL || rt->status != MT_OK)
        return NULL;
    if (mt_fused_is_fp8(model, weight))
        return mt_fused_linear_fp8(rt, model, name, role, x, weight);
    return project(rt, model, name, role, NULL, x, weight, MT_FUSED_TRANSPOSED);
}

struct mt_tensor *mt_fused_input_grad(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                                      struct mt_tensor *grad, struct mt_fused_weight *weight)
{
    if (grad == NULL || rt->status != MT_OK)
        return NULL;
    if (mt_fused_is_fp8(model, weight))
        return mt_fused_input_grad_fp8(rt, model, name, grad, weight);
    return project(rt, model, name, MT_ROLE_TEMPORARY, "grad", grad, weight, MT_FUSED_AS_IT_IS);
}

void mt_fused_linear_into(struct mt_runtime *rt, struct mt_tensor *y, struct mt_tensor *x, struct mt_tensor *operand)
{
    multiply(rt, 0, y, x, MT_FUSED_AS_IT_IS, operand, MT_FUSED_TRANSPOSED);
}

void mt_fused_input_grad_into(struct mt_runtime *rt, struct mt_tensor *dx, struct mt_tensor *grad,
                              struct mt_tensor *operand)
{
    multiply(rt, 0, dx, grad, MT_FUSED_AS_IT_IS, operand, MT_FUSED_AS_IT_IS);
}

struct mt_tensor *mt_fused_gradient(struct mt_runtime *rt, struct mt_fused_weight *weight, double *out_beta)
{
    struct mt_parameter *parameter = &weight->parameter;
    *out_beta = parameter->grad != NULL ? 1 : 0;
    if (parameter->grad == NULL) {
        struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_GRADIENT, rt->scope.op);
        parameter->grad = mt_tensor_empty_like(rt, MT_ROLE_GRADIENT, "grad", parameter->value->dtype, parameter->value);
        rt->scope = outer;
    }
    assert(parameter->grad == NULL || mt_tensor_same_shape(parameter->grad, parameter->value));
    return parameter->grad;
}

/* Returns a dense copy of `tensor`, transposed as one matrix; a new reference. */
static struct mt_tensor *turned_copy(struct mt_runtime *rt, struct mt_tensor *tensor)
{
    struct mt_tensor *turned = mt_fused_matrix_view(rt, tensor, MT_FUSED_TRANSPOSED);
    if (turned == NULL)
        return NULL;
    struct mt_tensor *copy =
        mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "turned", tensor->dtype, turned->dims, turned->shape);
    mt_op_unary(rt, MTK_COPY, 0, copy, turned);
    mt_tensor_release(rt, turned);
    return copy;
}

/* Computes sum = gradᵀ · x + beta * sum: a product over tokens, along which neither operand is dense. Matrix units
 * that round to tf32 need dense operands; making dense copies takes less time than it saves. */
static void multiply_over_tokens(struct mt_runtime *rt, double beta, struct mt_tensor *sum, struct mt_tensor *grad,
                                 struct mt_tensor *x)
{
    if (rt->math != MTK_MATH_TF32 || grad == NULL || grad->dtype != MT_F32) {
        multiply(rt, beta, sum, grad, MT_FUSED_TRANSPOSED, x, MT_FUSED_AS_IT_IS);
        return;
    }
    struct mt_tensor *left = turned_copy(rt, grad), *right = turned_copy(rt, x);
    multiply(rt, beta, sum, left, MT_FUSED_AS_IT_IS, right, MT_FUSED_TRANSPOSED);
    MT_RELEASE(rt, right, left);
}

void mt_fused_weight_grad_add(struct mt_runtime *rt, struct mt_tensor *grad, struct mt_tensor *x,
                              struct mt_fused_weight *weight)
{
    double beta;
    if (rt->status != MT_OK)
        return;
    struct mt_tensor *sum = mt_fused_gradient(rt, weight, &beta);
    multiply_over_tokens(rt, beta, sum, grad, x);
}

void mt_fused_weight_grad(struct mt_runtime *rt, struct mt_fused_model *model, const char *name, struct mt_tensor *grad,
                          struct mt_tensor *x, struct mt_fused_weight *weight)
{
    if (rt->status != MT_OK)
        return;
    if (mt_fused_is_fp8(model, weight)) {
        mt_fused_weight_grad_fp8(rt, model, name, x, weight);
        return;
    }
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_EINSUM, "einsum");
    mt_fused_weight_grad_add(rt, grad, x, weight);
    mt_fused_gradient_complete(rt, model, weight);
    mt_scope_leave(rt, outer);
}
