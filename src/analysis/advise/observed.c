#include "analysis/advise/observed.h"

#include "trace/query/holders.h"

#include <stdlib.h>
#include <string.h>

const char *mt_observed_kind_name(mt_observed_kind kind)
{
#define X(kind, name) name,
    static const char *const names[MT_OBSERVED_KIND_COUNT] = {MT_OBSERVED_KINDS(X)};
#undef X
    return names[kind];
}

const char *mt_observed_change_name(mt_observed_change change)
{
#define X(change, name) name,
    static const char *const names[MT_OBSERVED_CHANGE_COUNT] = {MT_OBSERVED_CHANGES(X)};
#undef X
    return names[change];
}

bool mt_holder_is_kind(const struct mt_holder_row *holder, mt_holder_kind kind)
{
    return holder != NULL && strcmp(holder->kind, mt_holder_kind_name(kind)) == 0;
}

bool mt_holder_is_chain(const struct mt_holder_row *holder)
{
    return mt_holder_is_kind(holder, MT_HOLDER_CHAIN) || mt_holder_is_kind(holder, MT_HOLDER_GRADIENT_CHAIN);
}

bool mt_program_phase_is(const char *name, mt_program_phase phase)
{
    return strcmp(name, mt_program_phase_name(phase)) == 0;
}

bool mt_holder_is_same(const struct mt_holder_row *a, const struct mt_holder_row *b)
{
    return a == b || (a->line == b->line && strcmp(a->name, b->name) == 0 && strcmp(a->owner, b->owner) == 0 &&
                      strcmp(a->file, b->file) == 0);
}

bool mt_observed_is_growth(const struct mt_observed *observed)
{
    switch (observed->kind) {
    case MT_OBSERVED_KEPT_GRAPHS:
    case MT_OBSERVED_KEPT_TENSORS:
    case MT_OBSERVED_KEPT_VIEWS:
    case MT_OBSERVED_CYCLES:
    case MT_OBSERVED_GROWTH:
        return true;
    default:
        return false;
    }
}

bool mt_observations_have_growth(const struct mt_observations *observations)
{
    for (size_t i = 0; i < observations->count; i++)
        if (mt_observed_is_growth(&observations->items[i]))
            return true;
    return false;
}

void mt_observations_release(struct mt_observations *observations)
{
    free(observations->items);
    free(observations->holders);
    free(observations->phases);
    *observations = (struct mt_observations){0};
}
