#include "producers/model/parameter.h"

#include "base/random.h"
#include "producers/model/graph.h"
#include "producers/model/ops.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

void mt_parameter_name(int layer, const char *module, char name[MT_PARAMETER_NAME])
{
    if (layer >= 0)
        snprintf(name, MT_PARAMETER_NAME, "layers.%d.%s.weight", layer, module);
    else
        snprintf(name, MT_PARAMETER_NAME, "%s.weight", module);
}

void mt_parameter_draw(struct mt_runtime *rt, const struct mt_training_config *config, mt_parameter_kind kind,
                       uint64_t number, struct mt_tensor *values)
{
    bool is_reference = config->init == MT_INIT_REFERENCE;
    double center = 0, spread = 1;
    if (values == NULL)
        return;
    assert(mt_tensor_is_contiguous(values));
    if (kind == MT_PARAMETER_NORM) {
        center = 1;
        spread = is_reference ? 0.1 : 0;
    }
    if (kind == MT_PARAMETER_LINEAR)
        spread = sqrt(3.0 / (double)values->shape[values->dims - 1]);
    uint64_t generator = is_reference ? number : mt_splitmix64(config->seed) % (1 << 20) + number;
    mt_op_random(rt, values, generator, center, spread);
}

void mt_parameter_create(struct mt_runtime *rt, const struct mt_training_config *config, const char *module,
                         const struct mt_parameter_shape *shape, struct mt_parameter *out)
{
    const int64_t matrix[] = {shape->rows, shape->columns};
    int dims = shape->rows == 0 ? 1 : 2;
    assert(shape->rows >= 0 && shape->columns > 0);
    struct mt_scope outer = mt_scope_enter(rt, module, MT_CATEGORY_PARAM, "parameter");
    *out = (struct mt_parameter){.span = rt->scope.span, .layer = outer.layer, .number = shape->number};
    mt_parameter_name(outer.layer, module, out->name);
    out->value = mt_tensor_empty(rt, MT_ROLE_PARAMETER, NULL, config->parameter_dtype, dims,
                                 dims == 1 ? &shape->columns : matrix);
    mt_parameter_draw(rt, config, shape->kind, shape->number, out->value);
    mt_parameter_add_leaf(rt, out);
    mt_scope_leave(rt, outer);
}

void mt_parameter_add_leaf(struct mt_runtime *rt, struct mt_parameter *parameter)
{
    mt_graph_add_leaf(rt, parameter->value, parameter->span, parameter->layer, &parameter->grad);
}

static mt_dtype moment_dtype(mtk_moments form, const struct mt_tensor *value)
{
    return form == MTK_MOMENTS_FULL ? value->dtype : form == MTK_MOMENTS_BF16 ? MT_BF16 : MT_U8;
}

static struct mt_tensor *zero_moment(struct mt_runtime *rt, const char *name, mtk_moments form,
                                     const struct mt_tensor *like)
{
    struct mt_tensor *moment = mt_tensor_empty_like(rt, MT_ROLE_OPTIMIZER_STATE, name, moment_dtype(form, like), like);
    mt_op_fill(rt, moment, 0);
    return moment;
}

/* Allocates the scales of a parameter's moments, one pair for each block of elements. */
static struct mt_tensor *zero_scales(struct mt_runtime *rt, const struct mt_tensor *value)
{
    const int64_t shape[] = {(mt_tensor_count(value) + MTK_MOMENTS_BLOCK - 1) / MTK_MOMENTS_BLOCK, 2};
    struct mt_tensor *scales = mt_tensor_empty(rt, MT_ROLE_OPTIMIZER_STATE, "scales", MT_F32, 2, shape);
    mt_op_fill(rt, scales, 0);
    return scales;
}

struct mt_tensor *const *mt_parameter_moments(struct mt_runtime *rt, mtk_moments form, struct mt_parameter *parameter)
{
    struct mt_tensor **moments = parameter->moments;
    assert(rt->status != MT_OK || (moments[0] == NULL) == (moments[1] == NULL));
    if (moments[0] != NULL)
        return moments;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_OPT_STATE, "adamw");
    moments[0] = zero_moment(rt, "exp_avg", form, parameter->value);
    moments[1] = zero_moment(rt, "exp_avg_sq", form, parameter->value);
    if (form == MTK_MOMENTS_8BIT)
        parameter->scales = zero_scales(rt, parameter->value);
    rt->scope = outer;
    return moments;
}

void mt_parameter_release_moments(struct mt_runtime *rt, struct mt_parameter *parameter)
{
    MT_RELEASE(rt, parameter->moments[0], parameter->moments[1], parameter->scales);
}

uint64_t mt_parameter_fold_place(uint64_t sum, const struct mt_parameter *parameter)
{
    return mt_splitmix64(sum ^ (parameter->grad != NULL ? parameter->grad->address : 0));
}

void mt_parameter_release(struct mt_runtime *rt, struct mt_parameter *parameter)
{
    assert(parameter->cast == NULL); /* the autocast region has ended */
    mt_parameter_release_moments(rt, parameter);
    MT_RELEASE(rt, parameter->grad, parameter->value);
}
