#include "trace/store/caveat.h"

#include <string.h>

#define X(name, text) text,
static const char *const kinds[MT_CAVEAT_KIND_COUNT] = {MT_CAVEAT_KINDS(X)};
static const char *const reasons[MT_ENDED_BY_COUNT] = {MT_ENDED_BY(X)};
#undef X

const char *mt_caveat_kind_name(mt_caveat_kind kind)
{
    return kind < MT_CAVEAT_KIND_COUNT ? kinds[kind] : "?";
}

const char *mt_ended_by_name(mt_ended_by reason)
{
    return reason < MT_ENDED_BY_COUNT ? reasons[reason] : "?";
}

/* Returns the index of a text, or `count` if it is not among the names. */
static int find(const char *const *names, int count, const char *text)
{
    int i = 0;
    while (i < count && strcmp(names[i], text) != 0)
        i++;
    return i;
}

bool mt_caveat_kind_find(const char *name, mt_caveat_kind *out)
{
    *out = (mt_caveat_kind)find(kinds, MT_CAVEAT_KIND_COUNT, name);
    return *out < MT_CAVEAT_KIND_COUNT;
}

bool mt_ended_by_find(const char *name, mt_ended_by *out)
{
    *out = (mt_ended_by)find(reasons, MT_ENDED_BY_COUNT, name);
    return *out < MT_ENDED_BY_COUNT;
}
