#include "trace/store/holder.h"

#include <string.h>

#define X(name, text) text,
static const char *const kinds[MT_HOLDER_KIND_COUNT] = {MT_HOLDER_KINDS(X)};
#undef X

const char *mt_holder_kind_name(mt_holder_kind kind)
{
    return kind < MT_HOLDER_KIND_COUNT ? kinds[kind] : "?";
}

bool mt_holder_kind_find(const char *name, mt_holder_kind *out)
{
    int i = 0;
    while (i < MT_HOLDER_KIND_COUNT && strcmp(kinds[i], name) != 0)
        i++;
    *out = (mt_holder_kind)i;
    return i < MT_HOLDER_KIND_COUNT;
}
