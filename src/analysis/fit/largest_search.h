/* The search for the largest value with which a program fits a device: which values to try next, by those that were tried.
 * Computes only; its caller makes the trials.
 *
 *   1, 22  ──▶  memory in between is interpolated: 6 should fit, and 7 not  ──▶  6, 7  ──▶  6 is the largest
 *
 * A round has two values, to be tried side by side. After a few rounds one of them halves the remaining values, whatever the
 * memory does. The search ends when the largest value that fits and the next larger one were both tried.
 *
 * A value with which the program fails says nothing of memory, so its successor is tried, too. If both fail, all larger values
 * are taken to fail.
 *
 * Threads: one at a time for an object. */
#pragma once

#include "analysis/fit/value_range.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mt_search_state {
    MT_SEARCH_FITS,
    MT_SEARCH_SHORT, /* the program needs more memory than the device has */
    MT_SEARCH_FAILED /* the program failed for another reason, so nothing is known of its memory */
} mt_search_state;

/* A value that was tried. */
struct mt_search_point {
    int64_t index; /* of the range */
    mt_search_state state;
    bool has_room; /* false: the program failed, or needs more memory than any card has */
    /* The capacity less the peaks, if has_room. A program fits if the first is not negative, and does not if the second is;
     * in between it depends on how much the allocator can free. */
    double reserved_room_bytes, allocated_room_bytes;
};

/* Invariant: the points ascend. */
struct mt_largest_search {
    const struct mt_value_range *range; /* borrowed */
    struct mt_search_point *points;     /* an array for MT_HOST_ADD; owned */
    size_t count;
};

void mt_largest_search_add(struct mt_largest_search *search, const struct mt_search_point *point);
void mt_largest_search_release(struct mt_largest_search *search);

/* Returns how many values are to be tried next, and sets their indices: none that was tried. 0: the search has ended. */
enum { MT_SEARCH_ROUND = 2 };
size_t mt_largest_search_next(const struct mt_largest_search *search, int64_t out[MT_SEARCH_ROUND]);

/* Returns the largest tried value that fits; NULL: none. */
const struct mt_search_point *mt_largest_search_found(const struct mt_largest_search *search);

/* Returns the smallest tried value of a state above the largest that fits; NULL: none. */
const struct mt_search_point *mt_largest_search_above(const struct mt_largest_search *search, mt_search_state state);

/* Returns the largest tried value that does not fit although a larger one does; NULL: none. */
const struct mt_search_point *mt_largest_search_exception(const struct mt_largest_search *search);
