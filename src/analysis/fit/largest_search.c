#include "analysis/fit/largest_search.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum {
    GUESSED = 8, /* trials after which each round halves the remaining values */
    GROWTH = 64, /* a guess beyond all tried values is at most this many times the largest */
    WIDE = 8,    /* from this ratio on, the remaining values are divided by ratios */
    ROOT_STEPS = 64
};

void mt_largest_search_add(struct mt_largest_search *search, const struct mt_search_point *point)
{
    (void)MT_HOST_ADD(search->points, search->count);
    size_t place = search->count - 1;
    for (; place > 0 && search->points[place - 1].index > point->index; place--)
        search->points[place] = search->points[place - 1];
    search->points[place] = *point;
}

void mt_largest_search_release(struct mt_largest_search *search)
{
    free(search->points);
    *search = (struct mt_largest_search){0};
}

/* ---- known values ---- */

const struct mt_search_point *mt_largest_search_found(const struct mt_largest_search *search)
{
    for (size_t i = search->count; i-- > 0;)
        if (search->points[i].state == MT_SEARCH_FITS)
            return &search->points[i];
    return NULL;
}

static int64_t found_index(const struct mt_largest_search *search)
{
    const struct mt_search_point *found = mt_largest_search_found(search);
    return found != NULL ? found->index : -1;
}

const struct mt_search_point *mt_largest_search_above(const struct mt_largest_search *search, mt_search_state state)
{
    const int64_t found = found_index(search);
    for (size_t i = 0; i < search->count; i++)
        if (search->points[i].state == state && search->points[i].index > found)
            return &search->points[i];
    return NULL;
}

const struct mt_search_point *mt_largest_search_exception(const struct mt_largest_search *search)
{
    const int64_t found = found_index(search);
    for (size_t i = search->count; i-- > 0;)
        if (search->points[i].state == MT_SEARCH_SHORT && search->points[i].index < found)
            return &search->points[i];
    return NULL;
}

/* The remaining values, between two indices. They are untried, except for single ones that failed. */
struct bracket {
    int64_t low, high;
};

static bool has_failed(const struct mt_largest_search *search, size_t place, int64_t index)
{
    return place < search->count && search->points[place].index == index &&
           search->points[place].state == MT_SEARCH_FAILED;
}

static struct bracket find_bracket(const struct mt_largest_search *search)
{
    const struct mt_search_point *large = mt_largest_search_above(search, MT_SEARCH_SHORT);
    struct bracket left = {found_index(search), large != NULL ? large->index : search->range->count};
    for (size_t i = 0; i < search->count && search->points[i].index < left.high; i++) {
        const int64_t index = search->points[i].index;
        const bool is_wall = index + 1 == left.high || has_failed(search, i + 1, index + 1);
        if (index > left.low && has_failed(search, i, index) && is_wall)
            left.high = index;
    }
    return left;
}

/* ---- guesses ---- */

/* Which peak is compared with the capacity. */
enum limit { BY_RESERVED, BY_ALLOCATED };

static double room_of(const struct mt_search_point *point, enum limit limit)
{
    return limit == BY_RESERVED ? point->reserved_room_bytes : point->allocated_room_bytes;
}

/* A value, and the free memory with it. */
struct sample {
    double value, room;
};

/* Lists the values with known memory in order. Returns their number. */
static size_t list_samples(const struct mt_largest_search *search, enum limit limit, struct sample *out)
{
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct mt_search_point *point = &search->points[i];
        if (point->has_room)
            out[count++] =
                (struct sample){(double)mt_value_range_at(search->range, point->index), room_of(point, limit)};
    }
    return count;
}

/* Returns the parabola through three points at `value`. */
static double interpolate(const struct sample three[3], double value)
{
    const double first = (three[1].room - three[0].room) / (three[1].value - three[0].value);
    const double second = (three[2].room - three[1].room) / (three[2].value - three[1].value);
    const double bend = (second - first) / (three[2].value - three[0].value);
    return three[0].room + (value - three[0].value) * (first + bend * (value - three[1].value));
}

/* Returns the value without free memory between two samples: on the parabola through both and the nearest third
 * sample. */
static double find_between(const struct sample *samples, size_t count, size_t with_room)
{
    const struct sample *pair = &samples[with_room];
    double low = pair[0].value, high = pair[1].value;
    const bool has_before = with_room > 0, has_after = with_room + 2 < count;
    if (!has_before && !has_after)
        return low + (high - low) * pair[0].room / (pair[0].room - pair[1].room);
    const bool takes_before =
        has_before && (!has_after || pair[0].value - pair[-1].value <= pair[2].value - pair[1].value);
    for (int i = 0; i < ROOT_STEPS; i++) {
        const double middle = low + (high - low) / 2;
        if (interpolate(takes_before ? pair - 1 : pair, middle) >= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the value without free memory on the line through the two largest samples. */
static double find_beyond(const struct sample *last)
{
    const double slope = (last[0].room - last[-1].room) / (last[0].value - last[-1].value);
    const double most = last[0].value * GROWTH;
    return slope < 0 ? fmin(last[0].value - last[0].room / slope, most) : most;
}

/* Sets *out to the index of the largest value that should have free memory by that limit. False if the samples do not
 * show it. */
static bool guess(const struct mt_largest_search *search, enum limit limit, int64_t *out)
{
    struct sample *samples = mt_host_alloc((search->count + 1) * sizeof *samples);
    const size_t count = list_samples(search, limit, samples);
    size_t with_room = count;
    while (with_room > 0 && samples[with_room - 1].room < 0)
        with_room--;
    const bool is_known = with_room > 0 && count > 1;
    if (is_known)
        *out = mt_value_range_find(search->range, with_room < count ? find_between(samples, count, with_room - 1)
                                                                    : find_beyond(&samples[count - 1]));
    free(samples);
    return is_known;
}

/* ---- rounds ---- */

/* The values of a round. */
struct round {
    int64_t *indices;
    size_t count;
};

/* Adds an index if it remains, is not yet in the round, and the round is not full. */
static void add(const struct bracket *left, int64_t index, struct round *round)
{
    if (index <= left->low || index >= left->high || round->count == MT_SEARCH_ROUND)
        return;
    for (size_t i = 0; i < round->count; i++)
        if (round->indices[i] == index)
            return;
    round->indices[round->count++] = index;
}

/* Adds the smallest value, and one between it and the largest by ratio, since large values may need much host
 * memory. */
static void add_first(const struct mt_largest_search *search, const struct bracket *left, struct round *round)
{
    const double low = (double)mt_value_range_at(search->range, 0);
    const double high = (double)mt_value_range_at(search->range, search->range->count - 1);
    add(left, 0, round);
    add(left, mt_value_range_find(search->range, sqrt(low * high)), round);
    add(left, 1, round); /* if both are equal */
}

static void add_all(const struct bracket *left, struct round *round)
{
    for (int64_t index = left->low + 1; index < left->high; index++)
        add(left, index, round);
}

/* Adds the successors of single values that failed. */
static void add_after_failures(const struct mt_largest_search *search, const struct bracket *left, struct round *round)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->points[i].state == MT_SEARCH_FAILED && search->points[i].index > left->low)
            add(left, search->points[i].index + 1, round);
}

/* Adds the largest value that should fit by its reserved bytes, and the next one. If an earlier guess was wrong, the
 * second value is one that can't fit, whatever the allocator frees. */
static void add_guesses(const struct mt_largest_search *search, const struct bracket *left, struct round *round)
{
    int64_t reserved, allocated;
    if (guess(search, BY_RESERVED, &reserved)) {
        const int64_t fits = reserved > left->low ? reserved : left->low;
        add(left, fits, round);
        if (search->count <= MT_SEARCH_ROUND || fits == left->low)
            add(left, fits + 1, round);
    }
    if (guess(search, BY_ALLOCATED, &allocated))
        add(left, allocated + 1, round);
}

/* Returns the index at a fraction of the remaining values, by ratios of values if these differ much. */
static int64_t index_at(const struct mt_largest_search *search, const struct bracket *left, double part)
{
    const double first = (double)mt_value_range_at(search->range, left->low + 1);
    const double last = (double)mt_value_range_at(search->range, left->high - 1);
    if (search->range->listed == NULL && last / first > WIDE)
        return mt_value_range_find(search->range, first * pow(last / first, part));
    return left->low + (int64_t)((double)(left->high - left->low) * part);
}

/* Adds values that divide the remaining ones into three parts. If some values fail, adds a middle value and its
 * successor. */
static void add_parts(const struct mt_largest_search *search, const struct bracket *left, struct round *round)
{
    bool any_failed = false;
    for (size_t i = 0; i < search->count; i++)
        any_failed = any_failed || search->points[i].state == MT_SEARCH_FAILED;
    const int64_t middle = index_at(search, left, 0.5);
    add(left, any_failed ? middle : index_at(search, left, 1.0 / 3), round);
    add(left, any_failed ? middle + 1 : index_at(search, left, 2.0 / 3), round);
}

/* Replaces the second guess by the middle of the larger of the two parts that the first guess divides. */
static void halve(const struct bracket *left, struct round *round)
{
    const int64_t at = round->indices[0];
    round->count = 1;
    if (at - left->low > left->high - at)
        add(left, left->low + (at - left->low) / 2, round);
    else
        add(left, at + (left->high - at) / 2, round);
}

/* Chooses a round among many remaining values, all untried. */
static void choose(const struct mt_largest_search *search, const struct bracket *left, struct round *round)
{
    add_guesses(search, left, round);
    if (round->count == 0)
        add_parts(search, left, round);
    else if (search->count >= GUESSED)
        halve(left, round);
}

size_t mt_largest_search_next(const struct mt_largest_search *search, int64_t out[MT_SEARCH_ROUND])
{
    const struct bracket left = find_bracket(search);
    struct round round = {.indices = out};
    if (search->count == 0)
        add_first(search, &left, &round);
    else
        add_after_failures(search, &left, &round);
    if (round.count > 0)
        return round.count;
    if (left.high - left.low <= MT_SEARCH_ROUND + 1)
        add_all(&left, &round);
    else
        choose(search, &left, &round);
    return round.count;
}
