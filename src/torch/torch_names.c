#include "torch/torch_names.h"

#include "base/interner.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_LAYER = 6 /* digits */ };

void mt_torch_names_start(struct mt_torch_names *names)
{
    *names = (struct mt_torch_names){.interner = mt_interner_create()};
}

void mt_torch_names_end(struct mt_torch_names *names)
{
    for (uint32_t i = 1; i <= names->span_count; i++)
        free((char *)(uintptr_t)names->spans[i].kind);
    free(names->spans);
    mt_category_set_release(&names->categories);
    mt_interner_destroy(names->interner);
}

/* A list of modules names its members by number. */
static int layer_of(const char *name, int parent_layer)
{
    size_t length = strlen(name);
    if (parent_layer >= 0 || length == 0 || length > LONGEST_LAYER || strspn(name, "0123456789") != length)
        return parent_layer;
    return atoi(name);
}

/* The lock is held; the interner's ids are dense. */
static void append(struct mt_torch_names *names, mt_span_id span, const char *kind)
{
    names->spans = mt_host_room(names->spans, span, sizeof *names->spans);
    const struct mt_span *known = mt_interner_find_span(names->interner, span);
    int parent_layer = known->parent != 0 ? names->spans[known->parent].layer : -1;
    names->spans[span] = (struct mt_torch_span){.parent = known->parent,
                                                .name = known->name,
                                                .kind = mt_host_strdup(kind),
                                                .layer = layer_of(known->name, parent_layer)};
    names->span_count = span;
}

mt_span_id mt_torch_names_span(struct mt_torch_names *names, mt_span_id parent, const char *name, const char *kind)
{
    bool is_new = false;
    mt_lock_take(&names->lock);
    mt_span_id span = mt_interner_span(names->interner, parent <= names->span_count ? parent : 0, name, &is_new);
    if (is_new)
        append(names, span, kind);
    mt_lock_give(&names->lock);
    return span;
}

bool mt_torch_names_find(struct mt_torch_names *names, mt_span_id span, struct mt_torch_span *out)
{
    mt_lock_take(&names->lock);
    bool is_known = span > 0 && span <= names->span_count;
    if (is_known)
        *out = names->spans[span];
    mt_lock_give(&names->lock);
    return is_known;
}

mt_category mt_torch_names_category(struct mt_torch_names *names, const char *name, bool *is_new)
{
    mt_lock_take(&names->lock);
    uint32_t before = mt_category_set_count(&names->categories);
    mt_category category = mt_category_set_add(&names->categories, name);
    if (is_new != NULL)
        *is_new = mt_category_set_count(&names->categories) > before;
    mt_lock_give(&names->lock);
    return category;
}

const char *mt_torch_names_category_name(struct mt_torch_names *names, mt_category category)
{
    mt_lock_take(&names->lock);
    const char *name = category < mt_category_set_count(&names->categories)
                           ? mt_category_set_name(&names->categories, category)
                           : NULL;
    mt_lock_give(&names->lock);
    return name;
}
