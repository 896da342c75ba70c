/* The search for the largest value with which a program fits a device: chooses the next values to try. Only computes;
 * its caller makes the trials.
 *
 *   1, 22  ──▶  memory in between is interpolated: 6 should fit, and 7 not  ──▶  6, 7  ──▶  6 is the largest
 *
 * A round has two values, which are tried in parallel. After a few rounds one of them always halves the remaining
 * values. The search ends when the largest value that fits and the next larger one were both tried.
 *
 * If the program fails with a value, its memory is unknown, so the successor is also tried. If both fail, all larger
 * values are assumed to fail.
 *
 * Threads: one at a time per object. */
#pragma once

#include "analysis/fit/value_range.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mt_search_state {
    MT_SEARCH_FITS,
    MT_SEARCH_SHORT, /* the program needs more memory than the device has */
    MT_SEARCH_FAILED /* the program failed for another reason, so its memory is unknown */
} mt_search_state;

/* A value that was tried. */
struct mt_search_point {
    int64_t index; /* into the range */
    mt_search_state state;
    bool has_room; /* false: the program failed, or needs more memory than any card has */
    /* If has_room, the capacity minus the peaks. A program fits if the first is not negative, and does not fit if the
     * second is negative. Otherwise it depends on how much memory the allocator can free. */
    double reserved_room_bytes, allocated_room_bytes;
};

/* Invariant: the points are in ascending order. */
struct mt_largest_search {
    const struct mt_value_range *range; /* borrowed */
    struct mt_search_point *points;     /* an array for MT_HOST_ADD; owned */
    size_t count;
};

void mt_largest_search_add(struct mt_largest_search *search, const struct mt_search_point *point);
void mt_largest_search_release(struct mt_largest_search *search);

/* Returns how many values to try next, and sets their indices. All are untried. 0: the search has ended. */
enum { MT_SEARCH_ROUND = 2 };
size_t mt_largest_search_next(const struct mt_largest_search *search, int64_t out[MT_SEARCH_ROUND]);

/* Returns the largest tried value that fits; NULL: none. */
const struct mt_search_point *mt_largest_search_found(const struct mt_largest_search *search);

/* Returns the smallest tried value with this state above the largest that fits; NULL: none. */
const struct mt_search_point *mt_largest_search_above(const struct mt_largest_search *search, mt_search_state state);

/* Returns the largest tried value that does not fit although a larger one fits; NULL: none. */
const struct mt_search_point *mt_largest_search_exception(const struct mt_largest_search *search);
