#include "producers/model/loss_scaler.h"

#include "producers/model/functions.h"
#include "producers/model/ops.h"
#include "producers/model/use.h"

#include <assert.h>

static const double FIRST_SCALE = 65536;

struct mt_tensor *mt_loss_scaler_scale(struct mt_runtime *rt, struct mt_loss_scaler *scaler, struct mt_tensor *loss)
{
    struct mt_scope outer = mt_scope_enter(rt, "loss_scaler", MT_CATEGORY_OPT_STATE, "loss_scaler");
    assert((scaler->scale == NULL) == (scaler->growth_tracker == NULL));
    if (scaler->scale == NULL) {
        scaler->scale = mt_scalar(rt, MT_ROLE_OPTIMIZER_STATE, "scale", MT_F32, FIRST_SCALE);
        scaler->growth_tracker = mt_scalar(rt, MT_ROLE_OPTIMIZER_STATE, "growth_tracker", MT_I32, 0);
    }
    mt_scope_category(rt, MT_CATEGORY_LOSS, "loss_scaler");
    struct mt_tensor *scaled = mt_multiply(rt, MT_ROLE_TEMPORARY, "scaled_loss", loss, scaler->scale);
    mt_scope_leave(rt, outer);
    return scaled;
}

/* Returns a copy of one number. */
static struct mt_tensor *copy_of(struct mt_runtime *rt, const char *name, mt_dtype dtype,
                                 const struct mt_tensor *number)
{
    struct mt_tensor *copy = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, name, dtype, 0, NULL);
    mt_op_unary(rt, MTK_COPY, 0, copy, number);
    return copy;
}

/* Returns 1 / scale in fp32, divided in fp64. */
static struct mt_tensor *inverse_scale(struct mt_runtime *rt, const struct mt_tensor *scale)
{
    struct mt_tensor *wide = copy_of(rt, "double", MT_F64, scale);
    struct mt_tensor *reciprocal = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "reciprocal", MT_F64, 0, NULL);
    mt_op_unary(rt, MTK_POWER, -1, reciprocal, wide);
    mt_tensor_release(rt, wide);
    struct mt_tensor *inverse = copy_of(rt, "inv_scale", MT_F32, reciprocal);
    mt_tensor_release(rt, reciprocal);
    return inverse;
}

void mt_loss_scaler_unscale(struct mt_runtime *rt, struct mt_loss_scaler *scaler, struct mt_parameter *parameters,
                            int64_t count)
{
    struct mt_scope outer = mt_scope_enter(rt, "loss_scaler", MT_CATEGORY_OPTIMIZER, "loss_scaler");
    assert(scaler->found_inf == NULL);
    struct mt_tensor *inverse = inverse_scale(rt, scaler->scale);
    struct mt_tensor *none_found = mt_scalar(rt, MT_ROLE_TEMPORARY, "found_inf", MT_F32, 0);
    scaler->found_inf = copy_of(rt, "found_inf.of_device", MT_F32, none_found);
    struct mt_tensor *of_device = copy_of(rt, "inv_scale.of_device", MT_F32, inverse);
    for (int64_t i = 0; i < count; i++)
        if (parameters[i].grad != NULL)
            mt_op_binary(rt, MTK_MULTIPLY, 0, parameters[i].grad, parameters[i].grad, of_device);
    MT_RELEASE(rt, of_device, inverse, none_found);
    mt_scope_leave(rt, outer);
}

void mt_loss_scaler_update(struct mt_runtime *rt, struct mt_loss_scaler *scaler)
{
    mt_use_read(rt, scaler->found_inf);
    mt_use_write(rt, scaler->scale);
    mt_use_write(rt, scaler->growth_tracker);
    mt_tensor_drop(rt, &scaler->found_inf);
}

void mt_loss_scaler_release(struct mt_runtime *rt, struct mt_loss_scaler *scaler)
{
    MT_RELEASE(rt, scaler->scale, scaler->growth_tracker, scaler->found_inf);
}
