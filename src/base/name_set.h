/* Texts and their numbers, for whoever is told the same few names again and again, each time by the same pointer: what
 * is known by where it lies is not hashed, only compared. One thread at a time. */
#ifndef MT_BASE_NAME_SET_H
#define MT_BASE_NAME_SET_H

#include <stdbool.h>
#include <stdint.h>

struct mt_name_set;

struct mt_name_set *mt_name_set_create(void);
void mt_name_set_destroy(struct mt_name_set *set); /* may be NULL */

/* The number of a name, from 1 in the order in which they came up, the same for equal ones. Copies it. The place may
 * hold another name later. `is_new` may be NULL. */
uint32_t mt_name_set_number(struct mt_name_set *set, const char *name, bool *is_new);

/* The name of a number that was given out; stays where it is as long as the set. */
const char *mt_name_set_name(const struct mt_name_set *set, uint32_t number);

#endif
