#include "base/packed_list.h"

#include "base/memory.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64, WORDS_A_BIT = MT_PACKED_PART / WORD_BITS };

static uint64_t mask_of(unsigned bits)
{
    return bits < WORD_BITS ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
}

/* ---- one part ---- */

static uint64_t read_stored(const struct mt_packed_part *part, size_t index)
{
    if (part->bits == 0)
        return 0;
    size_t first_bit = index * part->bits;
    const uint64_t *word = &part->words[first_bit / WORD_BITS];
    unsigned offset = first_bit % WORD_BITS;
    uint64_t stored = word[0] >> offset;
    if (offset + part->bits > WORD_BITS)
        stored |= word[1] << (WORD_BITS - offset);
    return stored & mask_of(part->bits);
}

static void write_stored(struct mt_packed_part *part, size_t index, uint64_t stored)
{
    if (part->bits == 0)
        return;
    size_t first_bit = index * part->bits;
    uint64_t *word = &part->words[first_bit / WORD_BITS], mask = mask_of(part->bits);
    unsigned offset = first_bit % WORD_BITS;
    assert(stored <= mask);
    word[0] = (word[0] & ~(mask << offset)) | stored << offset;
    if (offset + part->bits > WORD_BITS)
        word[1] = (word[1] & ~(mask >> (WORD_BITS - offset))) | stored >> (WORD_BITS - offset);
}

/* True if the part can store the number as it is. */
static bool holds(const struct mt_packed_part *part, uint64_t number)
{
    uint64_t above = number - part->base;
    return number >= part->base && (above & mask_of(part->shift)) == 0 && above >> part->shift <= mask_of(part->bits);
}

/* Chooses base, shift and bits for the numbers. */
static struct mt_packed_part shape_of(const uint64_t *numbers)
{
    uint64_t base = UINT64_MAX, used = 0;
    for (size_t i = 0; i < MT_PACKED_PART; i++)
        base = numbers[i] < base ? numbers[i] : base;
    for (size_t i = 0; i < MT_PACKED_PART; i++)
        used |= numbers[i] - base;
    if (used == 0)
        return (struct mt_packed_part){.base = base};
    unsigned shift = (unsigned)__builtin_ctzll(used), end = WORD_BITS - (unsigned)__builtin_clzll(used);
    return (struct mt_packed_part){.base = base, .shift = (unsigned char)shift, .bits = (unsigned char)(end - shift)};
}

static struct mt_packed_part pack(const uint64_t *numbers)
{
    struct mt_packed_part part = shape_of(numbers);
    if (part.bits == 0)
        return part;
    part.words = mt_host_alloc((size_t)part.bits * WORDS_A_BIT * sizeof *part.words);
    for (size_t i = 0; i < MT_PACKED_PART; i++)
        write_stored(&part, i, (numbers[i] - part.base) >> part.shift);
    return part;
}

static uint64_t read_number(const struct mt_packed_part *part, size_t index)
{
    return part->base + (read_stored(part, index) << part->shift);
}

static void set_in_part(struct mt_packed_part *part, size_t index, uint64_t number)
{
    if (holds(part, number)) {
        write_stored(part, index, (number - part->base) >> part->shift);
        return;
    }
    uint64_t numbers[MT_PACKED_PART];
    for (size_t i = 0; i < MT_PACKED_PART; i++)
        numbers[i] = read_number(part, i);
    numbers[index] = number;
    free(part->words);
    *part = pack(numbers);
}

/* ---- the list ---- */

void mt_packed_list_add(struct mt_packed_list *list, uint64_t number)
{
    if (list->open == NULL)
        list->open = mt_host_alloc(MT_PACKED_PART * sizeof *list->open);
    list->open[list->count++ % MT_PACKED_PART] = number;
    if (list->count % MT_PACKED_PART != 0)
        return;
    size_t parts = list->count / MT_PACKED_PART - 1;
    *MT_HOST_ADD(list->parts, parts) = pack(list->open);
}

uint64_t mt_packed_list_get(const struct mt_packed_list *list, size_t index)
{
    size_t part = index / MT_PACKED_PART;
    assert(index < list->count);
    if (part == list->count / MT_PACKED_PART)
        return list->open[index % MT_PACKED_PART];
    return read_number(&list->parts[part], index % MT_PACKED_PART);
}

void mt_packed_list_set(struct mt_packed_list *list, size_t index, uint64_t number)
{
    size_t part = index / MT_PACKED_PART;
    assert(index < list->count);
    if (part == list->count / MT_PACKED_PART)
        list->open[index % MT_PACKED_PART] = number;
    else
        set_in_part(&list->parts[part], index % MT_PACKED_PART, number);
}

void mt_packed_list_release(struct mt_packed_list *list)
{
    for (size_t i = 0; i < list->count / MT_PACKED_PART; i++)
        free(list->parts[i].words);
    free(list->parts);
    free(list->open);
    *list = (struct mt_packed_list){.count = 0};
}
