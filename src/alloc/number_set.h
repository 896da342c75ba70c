/* A set of numbers below a bound, as bits. Insert, remove and the search for the nearest lower member take a few
 * instructions, for any number of members: each level has one bit per word of the level below it, set if the word is
 * not zero. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MT_NUMBER_LEVELS = 6 /* numbers have 32 bits, and a level decides 6 of them */ };

/* Invariant: bit b of level l + 1 is set if and only if word b of level l is not zero. */
struct mt_number_set {
    uint64_t *words[MT_NUMBER_LEVELS];
    uint32_t bound;
};

/* Creates an empty set for numbers below `bound`, which is not 0; release frees it. */
struct mt_number_set mt_number_set_create(uint32_t bound);
void mt_number_set_release(struct mt_number_set *set);

/* Add and remove a number below the bound. It may already be in the set, or not be in it. */
void mt_number_set_insert(struct mt_number_set *set, uint32_t number);
void mt_number_set_remove(struct mt_number_set *set, uint32_t number);
bool mt_number_set_has(const struct mt_number_set *set, uint32_t number);

/* Sets *out to the greatest member that is at most `number`; false if there is none. */
bool mt_number_set_find_below(const struct mt_number_set *set, uint32_t number, uint32_t *out);
