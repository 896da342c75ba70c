#include "model/autocast.h"

#include "base/memory.h"
#include "model/functions.h"
#include "model/parameter.h"

#include <stdlib.h>

/* The parameters whose copy the open region holds, in the order in which the copies were made; borrowed. */
struct mt_cast_cache {
    struct mt_parameter **parameters;
    size_t count;
};

void mt_autocast_begin(struct mt_runtime *rt)
{
    rt->casts = mt_host_alloc(sizeof *rt->casts);
}

void mt_autocast_end(struct mt_runtime *rt)
{
    struct mt_cast_cache *cache = rt->casts;
    if (cache == NULL)
        return;
    rt->casts = NULL;
    for (size_t i = 0; i < cache->count; i++) {
        mt_tensor_release(rt, cache->parameters[i]->cast);
        cache->parameters[i]->cast = NULL;
    }
    free(cache->parameters);
    free(cache);
}

/* A copy is its own op, whoever asks for it. */
static struct mt_tensor *cast(struct mt_runtime *rt, mt_role role, struct mt_tensor *x, mt_dtype dtype)
{
    struct mt_scope outer = mt_scope_category(rt, rt->scope.category, "cast");
    struct mt_tensor *copy = mt_cast(rt, role, NULL, x, dtype);
    rt->scope = outer;
    return copy;
}

struct mt_tensor *mt_autocast_operand(struct mt_runtime *rt, mt_role role, struct mt_tensor *x)
{
    return rt->casts == NULL ? mt_tensor_retain(x) : cast(rt, role, x, MT_BF16);
}

struct mt_tensor *mt_autocast_weight(struct mt_runtime *rt, struct mt_parameter *parameter)
{
    struct mt_cast_cache *cache = rt->casts;
    if (cache == NULL)
        return mt_tensor_retain(parameter->value);
    if (parameter->cast == NULL) {
        parameter->cast = cast(rt, MT_ROLE_WEIGHT_CAST, parameter->value, MT_BF16);
        cache->parameters = mt_host_room(cache->parameters, cache->count, sizeof(struct mt_parameter *));
        cache->parameters[cache->count++] = parameter;
    }
    return mt_tensor_retain(parameter->cast);
}

struct mt_tensor *mt_autocast_fp32(struct mt_runtime *rt, mt_role role, struct mt_tensor *x)
{
    bool needed = rt->casts != NULL && x != NULL && x->dtype == MT_BF16;
    return needed ? cast(rt, rt->grad_enabled ? role : MT_ROLE_TEMPORARY, x, MT_F32) : mt_tensor_retain(x);
}
