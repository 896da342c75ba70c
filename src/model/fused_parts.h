/* What the files of the fused model share: walking its layers, products over stored weights, and norms. All do nothing, and
 * return NULL, once the runtime has failed. */
#ifndef MT_MODEL_FUSED_PARTS_H
#define MT_MODEL_FUSED_PARTS_H

#include "model/fused_model.h"

/* Enters block number i, inside of "layers". */
static inline struct mt_scope mt_fused_enter_layer(struct mt_runtime *rt, int64_t i)
{
    return mt_scope_enter_layer(rt, i, MT_CATEGORY_BLOCK, "residual");
}

/* How a matrix takes part in a product. */
typedef enum mt_fused_turn { MT_FUSED_AS_IT_IS, MT_FUSED_TRANSPOSED } mt_fused_turn;

/* out = a · b + beta * out, each seen as one matrix: its last dimension by all others. */
void mt_fused_product(struct mt_runtime *rt, double beta, struct mt_tensor *out, struct mt_tensor *a,
                      mt_fused_turn turn_a, struct mt_tensor *b, mt_fused_turn turn_b);

/* (B,T,out) = x (B,T,in) · weightᵀ, in a span `name`. */
struct mt_tensor *mt_fused_linear(struct mt_runtime *rt, struct mt_fused_model *model, const char *name, mt_role role,
                                  struct mt_tensor *x, struct mt_fused_weight *weight);

/* Its gradients: (B,T,in) = grad (B,T,out) · weight, after which the weight's cast has served; and what is added to the
 * weight's gradient, gradᵀ · x. */
struct mt_tensor *mt_fused_input_grad(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                                      struct mt_tensor *grad, struct mt_fused_weight *weight);
void mt_fused_weight_grad(struct mt_runtime *rt, struct mt_fused_model *model, const char *name, struct mt_tensor *grad,
                          struct mt_tensor *x, struct mt_fused_weight *weight);

/* The gradient of a weight, borrowed, and what to multiply it by before adding: 1, or 0 if it was only now taken. */
struct mt_tensor *mt_fused_gradient(struct mt_runtime *rt, struct mt_fused_weight *weight, double *out_beta);

/* To be said once nothing more is added to a weight's gradient in this step, and nothing more reads the weight: tells the
 * model's watch and, with optimizer_in_backward on, makes the update and lets go of the gradient. */
void mt_fused_gradient_complete(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_weight *weight);

/* To be said of a block's weights, or of those outside of blocks, once all their gradients are complete: where updates go
 * beside backward, theirs is queued, after all that is queued so far. Borrows the list. */
enum { MT_FUSED_BLOCK_WEIGHTS = 6 };
void mt_fused_block_complete(struct mt_runtime *rt, struct mt_fused_model *model, int count,
                             struct mt_fused_weight *const *weights);

/* Sets the numbers of update number `step`, from 1. */
void mt_fused_update_begin(struct mt_fused_model *model, int64_t step);

/* Computes again, from a layer's input, what backward needs of the layer. */
void mt_fused_recompute_layer(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer);

/* A cast of a weight that stays; in category Param. */
void mt_fused_cast_begin(struct mt_runtime *rt, struct mt_fused_weight *weight);

/* Attention of a block, (B,T,C), from what it projected; keeps the weights or the log-sum-exp. And the gradient of what
 * was projected, (B,T,3C), from that of the context, after which both are let go. */
struct mt_tensor *mt_fused_attention(struct mt_runtime *rt, const struct mt_fused_model *model,
                                     struct mt_fused_layer *layer);
struct mt_tensor *mt_fused_attention_grad(struct mt_runtime *rt, const struct mt_fused_model *model,
                                          struct mt_fused_layer *layer, struct mt_tensor *grad);

#endif
