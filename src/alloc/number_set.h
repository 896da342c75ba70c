/* A set of numbers below a bound, in bits. Insert, remove and the search for the nearest member below take a handful of
 * instructions, however many members there are: each level has a bit for each word of the level beneath it that is not
 * zero. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MT_NUMBER_LEVELS = 6 /* numbers have 32 bits, and a level decides 6 of them */ };

/* Invariant: bit b of level l + 1 is set exactly where word b of level l is not zero. */
struct mt_number_set {
    uint64_t *words[MT_NUMBER_LEVELS];
    uint32_t bound;
};

/* Creates an empty set for numbers below `bound`, which is not 0; release frees its memory. */
struct mt_number_set mt_number_set_create(uint32_t bound);
void mt_number_set_release(struct mt_number_set *set);

/* Add and remove a number below the bound, which may be in the set or not. */
void mt_number_set_insert(struct mt_number_set *set, uint32_t number);
void mt_number_set_remove(struct mt_number_set *set, uint32_t number);
bool mt_number_set_has(const struct mt_number_set *set, uint32_t number);

/* Sets *out to the greatest member that is not above `number`; false if there is none. */
bool mt_number_set_find_below(const struct mt_number_set *set, uint32_t number, uint32_t *out);
