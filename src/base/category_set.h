/* The categories of a run: ours, and then those that a program or a file of rules names, up to MT_MOST_CATEGORIES in
 * all. Few, so that they are numbers of one byte and arrays by category stay small. One thread at a time. */
#ifndef MT_BASE_CATEGORY_SET_H
#define MT_BASE_CATEGORY_SET_H

#include "base/label.h"

#include <stdbool.h>

/* Longer names are cut to this, the NUL included, and are equal if what is left is. */
enum { MT_CATEGORY_NAME_BYTES = 64 };

/* Invariant: names[0 .. named) are those of MT_CATEGORY_COUNT and on. */
struct mt_category_set {
    char *names[MT_MOST_CATEGORIES - MT_CATEGORY_COUNT];
    uint32_t named;
};

/* Zero-initialized has ours. */
void mt_category_set_release(struct mt_category_set *set);

/* The category of a name, the same for equal ones; ours if it is one of ours. MT_CATEGORY_OTHER for "", and for a new
 * name when there are as many as can be. Copies the name. */
mt_category mt_category_set_add(struct mt_category_set *set, const char *name);

/* Its name; stays where it is as long as the set. That of MT_CATEGORY_OTHER for what is no category of the set. */
const char *mt_category_set_name(const struct mt_category_set *set, mt_category category);

static inline uint32_t mt_category_set_count(const struct mt_category_set *set)
{
    return MT_CATEGORY_COUNT + set->named;
}

#endif
