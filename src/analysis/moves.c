/* Sorting by digits, least significant first: stable, so the lifetimes' order decides ties. */
#include "analysis/moves.h"

#include "base/memory.h"

#include <stdlib.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static int64_t earliest(const struct mt_lifetime *lifetimes, size_t count)
{
    int64_t position = MT_POSITION_NEVER;
    for (size_t i = 0; i < count; i++)
        if (lifetimes[i].begin < position)
            position = lifetimes[i].begin;
    return position;
}

/* Returns the highest key. */
static uint64_t list_moves(const struct mt_lifetime *lifetimes, size_t count, struct mt_moves *moves)
{
    uint64_t first = (uint64_t)earliest(lifetimes, count), highest = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = ((uint64_t)lifetimes[i].begin - first) << 1 | 1, end = ((uint64_t)lifetimes[i].end - first)
                                                                                << 1;
        moves->items[moves->count++] = (struct mt_move){.key = begin, .index = i};
        if (begin > highest)
            highest = begin;
        if (lifetimes[i].end == MT_POSITION_NEVER)
            continue;
        moves->items[moves->count++] = (struct mt_move){.key = end, .index = i};
        if (end > highest)
            highest = end;
    }
    return highest;
}

/* Where the moves of each digit begin. */
static void place_digits(const struct mt_move *moves, size_t count, int shift, size_t place[DIGITS])
{
    for (size_t digit = 0; digit < DIGITS; digit++)
        place[digit] = 0;
    for (size_t i = 0; i < count; i++)
        place[moves[i].key >> shift & (DIGITS - 1)]++;
    size_t before = 0;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t of_digit = place[digit];
        place[digit] = before;
        before += of_digit;
    }
}

static void sort_by_digit(const struct mt_move *from, size_t count, int shift, struct mt_move *to)
{
    size_t place[DIGITS];
    place_digits(from, count, shift, place);
    for (size_t i = 0; i < count; i++)
        to[place[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

/* Sorts `moves` with the room in `other`; returns the one that holds the result. */
static struct mt_move *sort(struct mt_move *moves, struct mt_move *other, size_t count, uint64_t highest)
{
    for (int shift = 0; shift < 64 && highest >> shift != 0; shift += DIGIT_BITS) {
        sort_by_digit(moves, count, shift, other);
        struct mt_move *sorted = other;
        other = moves;
        moves = sorted;
    }
    return moves;
}

void mt_moves_create(const struct mt_lifetime *lifetimes, size_t count, struct mt_moves *out)
{
    *out = (struct mt_moves){0};
    if (count == 0)
        return;
    struct mt_move *listed = mt_host_resize(NULL, 2 * count, sizeof *listed);
    struct mt_move *room = mt_host_resize(NULL, 2 * count, sizeof *room);
    out->items = listed;
    uint64_t highest = list_moves(lifetimes, count, out);
    out->items = sort(listed, room, out->count, highest);
    free(out->items == listed ? room : listed);
}

void mt_moves_release(struct mt_moves *moves)
{
    free(moves->items);
    *moves = (struct mt_moves){0};
}
