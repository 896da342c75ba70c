/* A set of texts with their numbers, for callers that give the same few names again and again, each time by the same
 * pointer: a known pointer is not hashed, only its text compared. One thread at a time. */
#ifndef MT_BASE_NAME_SET_H
#define MT_BASE_NAME_SET_H

#include <stdbool.h>
#include <stdint.h>

struct mt_name_set;

struct mt_name_set *mt_name_set_create(void);
void mt_name_set_destroy(struct mt_name_set *set); /* may be NULL */

/* Returns the number of a name, from 1 in order of first use, the same for equal names. Copies it: another name may lie at
 * its place later. Sets *is_new, unless that is NULL. */
uint32_t mt_name_set_number(struct mt_name_set *set, const char *name, bool *is_new);

/* Returns the name of a number of this set; it lives as long as the set. */
const char *mt_name_set_name(const struct mt_name_set *set, uint32_t number);

#endif
