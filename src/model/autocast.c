#include "model/autocast.h"

#include "base/memory.h"
#include "model/functions.h"
#include "model/parameter.h"

#include <stdlib.h>

/* The copies of the region that is open, in the order in which they were made. */
struct mt_cast_cache {
    struct cached_cast {
        const struct mt_parameter *parameter; /* borrowed */
        struct mt_tensor *copy;               /* held */
    } * casts;
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
    for (size_t i = 0; i < cache->count; i++)
        mt_tensor_release(rt, cache->casts[i].copy);
    free(cache->casts);
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

struct mt_tensor *mt_autocast_weight(struct mt_runtime *rt, const struct mt_parameter *parameter)
{
    struct mt_cast_cache *cache = rt->casts;
    if (cache == NULL)
        return mt_tensor_retain(parameter->value);
    for (size_t i = 0; i < cache->count; i++)
        if (cache->casts[i].parameter == parameter)
            return mt_tensor_retain(cache->casts[i].copy);
    struct mt_tensor *copy = cast(rt, MT_ROLE_WEIGHT_CAST, parameter->value, MT_BF16);
    cache->casts = mt_host_room(cache->casts, cache->count, sizeof *cache->casts);
    cache->casts[cache->count++] = (struct cached_cast){.parameter = parameter, .copy = mt_tensor_retain(copy)};
    return copy;
}

struct mt_tensor *mt_autocast_fp32(struct mt_runtime *rt, mt_role role, struct mt_tensor *x)
{
    bool needed = rt->casts != NULL && x != NULL && x->dtype == MT_BF16;
    return needed ? cast(rt, rt->grad_enabled ? role : MT_ROLE_TEMPORARY, x, MT_F32) : mt_tensor_retain(x);
}
