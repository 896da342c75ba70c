/* What the files of functions share: how an output is made, and the rules for its dtype and role. */
#ifndef MT_MODEL_FUNCTION_RULES_H
#define MT_MODEL_FUNCTION_RULES_H

#include "model/functions.h"

/* The dtype of an op on both, as in PyTorch's type promotion: the wider floating type. */
static inline mt_dtype mt_promoted(const struct mt_tensor *a, const struct mt_tensor *b)
{
    if (a->dtype == MT_F64 || b->dtype == MT_F64)
        return MT_F64;
    return a->dtype == b->dtype ? a->dtype : MT_F32;
}

/* Without gradients nothing is kept. */
static inline mt_role mt_effective_role(const struct mt_runtime *rt, mt_role role)
{
    return role == MT_ROLE_SAVED && !rt->grad_enabled ? MT_ROLE_TEMPORARY : role;
}

/* A temporary of backward, shaped as `like`. */
static inline struct mt_tensor *mt_backward_temporary(struct mt_runtime *rt, const char *name,
                                                      const struct mt_tensor *like)
{
    return like == NULL ? NULL : mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, name, like->dtype, like);
}

/* What a backward makes for one input: labelled as the parameter's gradient where it becomes that as it is. */
static inline struct mt_tensor *mt_gradient_output(struct mt_runtime *rt, const char *name, mt_dtype dtype,
                                                   const struct mt_edge *edge)
{
    bool is_final = mt_edge_leads_to_parameter(edge);
    mt_category outer = rt->scope.category;
    if (is_final)
        rt->scope.category = MT_CATEGORY_GRADIENT;
    struct mt_tensor *out =
        mt_tensor_empty(rt, is_final ? MT_ROLE_GRAD : MT_ROLE_TEMPORARY, name, dtype, edge->dims, edge->shape);
    rt->scope.category = outer;
    return out;
}

#endif
