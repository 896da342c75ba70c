#include "producers/model/optimizer.h"

#include "producers/model/ops.h"

#include <assert.h>
#include <math.h>

static const double LEARNING_RATE = 1e-3, BETA1 = 0.9, BETA2 = 0.999, EPSILON = 1e-8, WEIGHT_DECAY = 0.01;

struct mtk_adamw mt_adamw_of_step(int64_t step)
{
    double t = (double)step;
    assert(step >= 1);
    return (struct mtk_adamw){.dtype = MT_F32,
                              .beta1 = BETA1,
                              .beta2 = BETA2,
                              .epsilon = EPSILON,
                              .step_size = LEARNING_RATE * sqrt(1 - pow(BETA2, t)) / (1 - pow(BETA1, t)),
                              .keep = 1 - LEARNING_RATE * WEIGHT_DECAY};
}

/* Updates one parameter and returns the denominator. The caller releases it after the next one was allocated, like the
 * reference program, which assigns both to one variable. */
static struct mt_tensor *update(struct mt_runtime *rt, struct mt_parameter *parameter, double step_size)
{
    struct mt_tensor *value = parameter->value, *grad = parameter->grad;
    struct mt_tensor *const *moments = mt_parameter_moments(rt, MTK_MOMENTS_FULL, parameter), *mean = moments[0],
                            *square = moments[1];
    mt_op_binary(rt, MTK_LERP, 1 - BETA1, mean, mean, grad);
    mt_op_binary(rt, MTK_LERP_SQUARE, 1 - BETA2, square, square, grad);
    struct mt_tensor *denominator = mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, "sqrt", value->dtype, value);
    mt_op_unary(rt, MTK_SQRT, EPSILON, denominator, square);
    mt_op_ternary(rt, MTK_ADD_QUOTIENT, -step_size, 1 - LEARNING_RATE * WEIGHT_DECAY, value, value, mean, denominator);
    return denominator;
}

/* Enters the span of a parameter's update, which has the parameter's name, inside "optimizer". */
static void enter_parameter(struct mt_runtime *rt, const struct mt_parameter *parameter, mt_span_id optimizer_span)
{
    rt->scope.span = mt_alloc_intern_span(rt->alloc, optimizer_span, parameter->name);
    rt->scope.layer = parameter->layer;
}

void mt_optimizer_step(struct mt_runtime *rt, struct mt_transformer *model, int64_t step)
{
    double step_size = mt_adamw_of_step(step).step_size;
    struct mt_scope outer = mt_scope_enter(rt, "optimizer", MT_CATEGORY_OPTIMIZER, "adamw");
    struct mt_scope inside = rt->scope;
    struct mt_tensor *previous = NULL;
    for (int64_t i = 0; i < model->parameter_count; i++) {
        struct mt_parameter *parameter = &model->parameters[i];
        if (parameter->grad == NULL || rt->status != MT_OK)
            continue;
        enter_parameter(rt, parameter, inside.span);
        struct mt_tensor *denominator = update(rt, parameter, step_size);
        mt_tensor_release(rt, previous);
        previous = denominator;
    }
    mt_tensor_release(rt, previous);
    rt->scope = inside;
    mt_scope_leave(rt, outer);
}

void mt_optimizer_zero_grad(struct mt_runtime *rt, struct mt_transformer *model)
{
    for (int64_t i = 0; i < model->parameter_count; i++)
        mt_tensor_drop(rt, &model->parameters[i].grad);
}
