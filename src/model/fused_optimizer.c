/* AdamW of the fused model: one op over all parameters, which also writes the bf16 copies that stay. */
#include "base/memory.h"
#include "model/fused_parts.h"
#include "model/ops.h"
#include "model/ops_fused.h"
#include "model/optimizer.h"

#include <stdlib.h>

static struct mt_tensor *zero_moment(struct mt_runtime *rt, const char *name, const struct mt_tensor *like)
{
    struct mt_tensor *moment = mt_tensor_empty_like(rt, MT_ROLE_OPT_STATE, name, like->dtype, like);
    mt_op_fill(rt, moment, 0);
    return moment;
}

/* Takes the moments of a parameter, at its first step. */
static void begin_moments(struct mt_runtime *rt, struct mt_parameter *parameter)
{
    if (parameter->moments[0] != NULL)
        return;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_OPT_STATE, "adamw");
    rt->scope.span = mt_alloc_intern_span(rt->alloc, outer.span, parameter->name);
    rt->scope.layer = parameter->layer;
    parameter->moments[0] = zero_moment(rt, "exp_avg", parameter->value);
    parameter->moments[1] = zero_moment(rt, "exp_avg_sq", parameter->value);
    rt->scope = outer;
}

void mt_fused_update(struct mt_runtime *rt, struct mt_fused_model *model, int64_t step)
{
    struct mt_adamw_tensors *parameters = mt_host_alloc((size_t)model->weight_count * sizeof *parameters);
    int count = 0;
    struct mt_scope outer = mt_scope_enter(rt, "optimizer", MT_CATEGORY_OPTIMIZER, "adamw");
    for (int64_t i = 0; i < model->weight_count && rt->status == MT_OK; i++) {
        struct mt_fused_weight *weight = &model->weights[i];
        struct mt_parameter *p = &weight->parameter;
        if (p->grad == NULL)
            continue;
        begin_moments(rt, p);
        parameters[count++] = (struct mt_adamw_tensors){
            .value = p->value, .mean = p->moments[0], .square = p->moments[1], .cast = weight->cast, .grad = p->grad};
    }
    struct mtk_adamw how = mt_adamw_of_step(step);
    how.dtype = model->config->parameter_dtype;
    if (rt->status == MT_OK && count > 0)
        mt_op_adamw(rt, &how, count, parameters);
    mt_scope_leave(rt, outer);
    free(parameters);
}

void mt_fused_zero_grad(struct mt_runtime *rt, struct mt_fused_model *model)
{
    for (int64_t i = 0; i < model->weight_count; i++)
        mt_fused_drop(rt, &model->weights[i].parameter.grad);
}
