/* Matrix products of the model, as the reference's einsum runs them: operands are cast by autocast, permuted and, if
 * no view serves, copied; then one batched product is computed. Every block that this takes has category einsum. The
 * functions return a new reference, or NULL once the runtime has failed. */
#ifndef MT_MODEL_EINSUM_H
#define MT_MODEL_EINSUM_H

#include "model/parameter.h"
#include "model/tensor.h"

/* Returns the role of a tensor that a product reads: under autocast the product saves its own copy. */
static inline mt_role mt_operand_role(const struct mt_runtime *rt)
{
    return rt->casts != NULL ? MT_ROLE_TEMPORARY : MT_ROLE_SAVED;
}

/* Computes y (B,T,out) = x (B,T,in) · weightᵀ, weight (out,in), in a span `name`. `role` is that of the output. */
struct mt_tensor *mt_einsum_linear(struct mt_runtime *rt, const char *name, mt_role role, struct mt_tensor *x,
                                   struct mt_parameter *weight);

/* Computes Q·Kᵀ: (B,H,T,D), (B,H,T,D) to (B,H,T,T). */
struct mt_tensor *mt_einsum_scores(struct mt_runtime *rt, struct mt_tensor *q, struct mt_tensor *k);

/* Computes weights times values: (B,H,T,T), (B,H,T,D) to (B,H,T,D). `role` is that of the output. */
struct mt_tensor *mt_einsum_context(struct mt_runtime *rt, mt_role role, struct mt_tensor *weights,
                                    struct mt_tensor *v);

#endif
