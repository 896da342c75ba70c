#include "producers/model/autocast.h"

#include "base/memory.h"
#include "producers/model/graph.h"
#include "producers/model/ops.h"

#include <assert.h>
#include <stdlib.h>

/* The parameters with copies in the open region, in the order of their first casts; borrowed. */
struct mt_cast_cache {
    mt_dtype dtype; /* of the region's products */
    struct mt_parameter **parameters;
    size_t count;
};

static struct mt_tensor *cast(struct mt_runtime *rt, mt_role role, struct mt_tensor *x, mt_dtype dtype);

/* The gradient of a cast is the cast back. */
static void cast_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                          struct mt_tensor **out)
{
    out[0] = cast(rt, MT_ROLE_TEMPORARY, grad, node->edges[0].dtype);
}

/* Returns x in another dtype; x itself (one more reference) if it has that dtype already. */
static struct mt_tensor *cast(struct mt_runtime *rt, mt_role role, struct mt_tensor *x, mt_dtype dtype)
{
    if (x == NULL || x->dtype == dtype)
        return mt_tensor_retain(x);
    struct mt_tensor *out = mt_tensor_empty_like(rt, mt_effective_role(rt, role), NULL, dtype, x);
    mt_op_unary(rt, MTK_COPY, 0, out, x);
    mt_graph_add(rt, NULL, cast_backward, out, x, NULL);
    return out;
}

void mt_autocast_begin(struct mt_runtime *rt, mt_dtype dtype)
{
    assert(rt->casts == NULL && (dtype == MT_BF16 || dtype == MT_F16));
    rt->casts = mt_host_alloc(sizeof *rt->casts);
    rt->casts->dtype = dtype;
}

void mt_autocast_end(struct mt_runtime *rt)
{
    struct mt_cast_cache *cache = rt->casts;
    if (cache == NULL)
        return;
    rt->casts = NULL;
    for (size_t i = 0; i < cache->count; i++)
        mt_tensor_drop(rt, &cache->parameters[i]->cast);
    free(cache->parameters);
    free(cache);
}

/* Casts in a separate op: labels call a copy "cast", whatever op needs it. */
static struct mt_tensor *cast_to(struct mt_runtime *rt, mt_role role, struct mt_tensor *x, mt_dtype dtype)
{
    struct mt_scope outer = mt_scope_category(rt, rt->scope.category, "cast");
    struct mt_tensor *copy = cast(rt, role, x, dtype);
    rt->scope = outer;
    return copy;
}

struct mt_tensor *mt_autocast_operand(struct mt_runtime *rt, mt_role role, struct mt_tensor *x)
{
    return rt->casts == NULL ? mt_tensor_retain(x) : cast_to(rt, role, x, rt->casts->dtype);
}

struct mt_tensor *mt_autocast_weight(struct mt_runtime *rt, struct mt_parameter *parameter)
{
    struct mt_cast_cache *cache = rt->casts;
    if (cache == NULL)
        return mt_tensor_retain(parameter->value);
    if (parameter->cast == NULL) {
        parameter->cast = cast_to(rt, MT_ROLE_WEIGHT_CAST, parameter->value, cache->dtype);
        *MT_HOST_ADD(cache->parameters, cache->count) = parameter;
    }
    assert(parameter->cast == NULL || parameter->cast->dtype == cache->dtype);
    return mt_tensor_retain(parameter->cast);
}

struct mt_tensor *mt_autocast_fp32(struct mt_runtime *rt, mt_role role, struct mt_tensor *x)
{
    bool needed = rt->casts != NULL && x != NULL && x->dtype == rt->casts->dtype;
    return needed ? cast_to(rt, rt->grad_enabled ? role : MT_ROLE_TEMPORARY, x, MT_F32) : mt_tensor_retain(x);
}
