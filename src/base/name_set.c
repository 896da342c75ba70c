#include "base/name_set.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/number_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Invariant: every value of `places` is a number of `names`; at its key, a pointer, that name was found last. */
struct mt_name_set {
    struct mt_interner *names; /* as spans inside the root */
    struct mt_number_map places;
};

struct mt_name_set *mt_name_set_create(void)
{
    struct mt_name_set *set = mt_host_alloc(sizeof *set);
    set->names = mt_interner_create();
    mt_number_map_create(&set->places);
    return set;
}

void mt_name_set_destroy(struct mt_name_set *set)
{
    if (set == NULL)
        return;
    mt_interner_destroy(set->names);
    mt_number_map_release(&set->places);
    free(set);
}

uint32_t mt_name_set_number(struct mt_name_set *set, const char *name, bool *is_new)
{
    uint64_t number, place = (uintptr_t)name;
    if (is_new != NULL)
        *is_new = false;
    if (mt_number_map_get(&set->places, place, &number) && strcmp(mt_name_set_name(set, (uint32_t)number), name) == 0)
        return (uint32_t)number;
    number = mt_interner_span(set->names, 0, name, is_new);
    mt_number_map_put(&set->places, place, number);
    return (uint32_t)number;
}

const char *mt_name_set_name(const struct mt_name_set *set, uint32_t number)
{
    const struct mt_span *span = mt_interner_find_span(set->names, number);
    assert(span != NULL);
    return span->name;
}
