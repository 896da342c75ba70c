#include "base/category_set.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void mt_category_set_release(struct mt_category_set *set)
{
    for (uint32_t i = 0; i < set->named; i++)
        free(set->names[i]);
    *set = (struct mt_category_set){0};
}

/* Copies as many whole characters to `out` as fit in MT_CATEGORY_NAME_BYTES; a byte that is part of none counts as
 * one. */
static void cut_name(const char *name, char *out)
{
    size_t length = 0;
    while (name[length] != '\0') {
        int character = mt_utf8_length(name + length);
        size_t next = length + (size_t)(character > 0 ? character : 1);
        if (next >= MT_CATEGORY_NAME_BYTES)
            break;
        length = next;
    }
    assert(length < MT_CATEGORY_NAME_BYTES);
    memcpy(out, name, length);
    out[length] = '\0';
}

mt_category mt_category_set_add(struct mt_category_set *set, const char *name)
{
    char cut[MT_CATEGORY_NAME_BYTES];
    cut_name(name, cut);
    if (cut[0] == '\0')
        return MT_CATEGORY_OTHER;
    uint32_t count = mt_category_set_count(set);
    assert(count <= MT_MOST_CATEGORIES);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(mt_category_set_name(set, (mt_category)i), cut) == 0)
            return (mt_category)i;
    if (count == MT_MOST_CATEGORIES)
        return MT_CATEGORY_OTHER;
    set->names[set->named++] = mt_host_strdup(cut);
    return (mt_category)count;
}

const char *mt_category_set_name(const struct mt_category_set *set, mt_category category)
{
    if (category < MT_CATEGORY_COUNT)
        return mt_category_name(category);
    assert(set->named <= MT_MOST_CATEGORIES - MT_CATEGORY_COUNT);
    if (category < mt_category_set_count(set))
        return set->names[category - MT_CATEGORY_COUNT];
    return mt_category_name(MT_CATEGORY_OTHER);
}
