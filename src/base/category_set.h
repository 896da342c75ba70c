/* The categories of a run: the built-in ones, then those that a program or a file of rules names, up to
 * MT_MOST_CATEGORIES in all. So a category is a number of one byte, and arrays by category stay small. One thread at a
 * time. */
#pragma once

#include "base/label.h"

#include <stdbool.h>

/* The most bytes of a name, with its NUL. Longer names are cut, and are equal if what is left is. */
enum { MT_CATEGORY_NAME_BYTES = 64 };

/* All zero: the built-in categories alone.
 * Invariant: names[i] is that of category MT_CATEGORY_COUNT + i, for i < named; no two names are equal, or that of a
 * built-in category. */
struct mt_category_set {
    char *names[MT_MOST_CATEGORIES - MT_CATEGORY_COUNT];
    uint32_t named;
};

/* Frees the names. The set is all zero afterwards. */
void mt_category_set_release(struct mt_category_set *set);

/* Returns the category of a name, the same for equal names; a built-in one by its name. Copies the name. Returns
 * MT_CATEGORY_OTHER for "", and for a new name when the set is full. */
mt_category mt_category_set_add(struct mt_category_set *set, const char *name);

/* Returns a category's name, which lives as long as the set; the name of MT_CATEGORY_OTHER if the set does not
 * have the category. */
const char *mt_category_set_name(const struct mt_category_set *set, mt_category category);

static inline uint32_t mt_category_set_count(const struct mt_category_set *set)
{
    return MT_CATEGORY_COUNT + set->named;
}
