/* The gate of the feed-forward net with its adjacent products. One kernel computes the gate and the product whose
 * results it reads, if the card has such a kernel (gate_plan.h); otherwise each has its own. Both ways allocate the
 * same tensors. With one kernel, the gate's output is allocated before the product. */
#include "kernels/gate_plan.h"
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"

#include <assert.h>

/* True if the gate is computed with a product of `rows` (B,T,C). */
static bool is_in_product(const struct mt_runtime *rt, const struct mt_fused_model *model,
                          const struct mt_fused_weight *weight, const struct mt_tensor *rows)
{
    const int64_t width = rows->shape[2], hidden = model->config->model.d_ff;
    return !mt_fused_is_fp8(model, weight) && mtk_gate_in_product(rt->device->card.capability, rows->dtype,
                                                                  rows->shape[0] * rows->shape[1], width, hidden);
}

/* Returns a tensor with the rows of `like` (B,T,…) and `columns` columns; a new reference. */
static struct mt_tensor *rows_like(struct mt_runtime *rt, const struct mt_tensor *like, mt_role role, const char *op,
                                   int64_t columns)
{
    const int64_t shape[] = {like->shape[0], like->shape[1], columns};
    return mt_tensor_empty(rt, role, op, like->dtype, 3, shape);
}

/* Computes both operands of the gate and, if `gated` is wanted, its output, in one kernel. */
static void multiply_and_gate(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                              struct mt_tensor *normed, struct mt_tensor **gated)
{
    const int64_t hidden = model->config->model.d_ff;
    if (gated != NULL)
        *gated = rows_like(rt, normed, MT_ROLE_TEMPORARY, NULL, hidden);
    struct mt_scope outer = mt_scope_enter(rt, "w13", MT_CATEGORY_EINSUM, "einsum");
    struct mt_tensor *w = mt_fused_operand(rt, model, layer->gate_up);
    layer->gates = rows_like(rt, normed, mt_effective_role(rt, MT_ROLE_ACTIVATION), NULL, 2 * hidden);
    mt_op_swiglu_product(rt, layer->gates, gated != NULL ? *gated : NULL, normed, w);
    mt_tensor_release(rt, w);
    mt_scope_leave(rt, outer);
}

void mt_fused_gate(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                   struct mt_tensor *normed, struct mt_tensor **gated)
{
    if (normed == NULL || rt->status != MT_OK) {
        mt_tensor_release(rt, normed);
        return;
    }
    if (is_in_product(rt, model, layer->gate_up, normed)) {
        multiply_and_gate(rt, model, layer, normed, gated);
        mt_tensor_release(rt, normed);
        return;
    }
    layer->gates = mt_fused_linear(rt, model, "w13", mt_effective_role(rt, MT_ROLE_ACTIVATION), normed, layer->gate_up);
    mt_tensor_release(rt, normed);
    if (gated == NULL || layer->gates == NULL)
        return;
    assert(layer->gates->shape[2] % 2 == 0);
    *gated = rows_like(rt, layer->gates, MT_ROLE_TEMPORARY, NULL, layer->gates->shape[2] / 2);
    mt_op_swiglu(rt, *gated, layer->gates);
}

struct mt_tensor *mt_fused_gate_grad(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                                     struct mt_tensor *grad)
{
    if (grad == NULL || rt->status != MT_OK)
        return NULL;
    if (!is_in_product(rt, model, layer->down, grad)) {
        struct mt_tensor *gated = mt_fused_input_grad(rt, model, "w2", grad, layer->down);
        mt_op_swiglu_grad(rt, layer->gates, gated);
        return gated;
    }
    struct mt_scope outer = mt_scope_enter(rt, "w2", MT_CATEGORY_EINSUM, "einsum");
    struct mt_tensor *w = mt_fused_operand(rt, model, layer->down);
    struct mt_tensor *gated = rows_like(rt, grad, MT_ROLE_TEMPORARY, "grad", model->config->model.d_ff);
    mt_op_swiglu_product_grad(rt, layer->gates, gated, grad, w);
    mt_tensor_release(rt, w);
    mt_fused_operand_done(rt, model, layer->down); /* this is the last product with it */
    mt_scope_leave(rt, outer);
    return gated;
}
