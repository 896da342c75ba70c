#include "alloc/number_set.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

enum { WORD_SHIFT = 6, WORD_BITS = 1 << WORD_SHIFT };

struct mt_number_set mt_number_set_create(uint32_t bound)
{
    assert(bound > 0);
    struct mt_number_set set = {.bound = bound};
    size_t bits = bound;
    for (int level = 0; level < MT_NUMBER_LEVELS; level++) {
        bits = (bits + WORD_BITS - 1) / WORD_BITS;
        set.words[level] = mt_host_alloc(bits * sizeof *set.words[level]);
    }
    return set;
}

void mt_number_set_release(struct mt_number_set *set)
{
    for (int level = 0; level < MT_NUMBER_LEVELS; level++)
        free(set->words[level]);
    *set = (struct mt_number_set){0};
}

static uint64_t bit_of(uint32_t number)
{
    return UINT64_C(1) << number % WORD_BITS;
}

/* Returns a word with all bits up to the one of `number`. */
static uint64_t bits_up_to(uint32_t number)
{
    return UINT64_MAX >> (WORD_BITS - 1 - number % WORD_BITS);
}

static uint32_t highest_bit(uint64_t word)
{
    return WORD_BITS - 1 - (uint32_t)__builtin_clzll(word);
}

void mt_number_set_insert(struct mt_number_set *set, uint32_t number)
{
    assert(number < set->bound);
    for (int level = 0; level < MT_NUMBER_LEVELS; level++, number >>= WORD_SHIFT) {
        uint64_t *word = &set->words[level][number >> WORD_SHIFT];
        bool was_empty = *word == 0;
        *word |= bit_of(number);
        if (!was_empty)
            return;
    }
}

void mt_number_set_remove(struct mt_number_set *set, uint32_t number)
{
    assert(number < set->bound);
    for (int level = 0; level < MT_NUMBER_LEVELS; level++, number >>= WORD_SHIFT) {
        uint64_t *word = &set->words[level][number >> WORD_SHIFT];
        *word &= ~bit_of(number);
        if (*word != 0)
            return;
    }
}

bool mt_number_set_has(const struct mt_number_set *set, uint32_t number)
{
    return number < set->bound && (set->words[0][number >> WORD_SHIFT] & bit_of(number)) != 0;
}

/* Returns the greatest member below word `index` of a level, which is not zero. */
static uint32_t greatest_under(const struct mt_number_set *set, int level, uint32_t index)
{
    for (; level >= 0; level--)
        index = index << WORD_SHIFT | highest_bit(set->words[level][index]);
    return index;
}

bool mt_number_set_find_below(const struct mt_number_set *set, uint32_t number, uint32_t *out)
{
    assert(number < set->bound);
    for (int level = 0; level < MT_NUMBER_LEVELS; level++) {
        uint32_t index = number >> WORD_SHIFT;
        uint64_t word = set->words[level][index] & bits_up_to(number);
        if (word != 0) {
            *out = greatest_under(set, level - 1, index << WORD_SHIFT | highest_bit(word));
            return true;
        }
        if (index == 0)
            return false;
        number = index - 1;
    }
    return false;
}
