/* Knots: a few events, with straight lines between them that approximate the times of all others. A page draws its
 * first picture from them while it still reads the times of a million events. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct mt_page_knot {
    uint64_t event; /* its position in the run */
    uint64_t time;
};

/* Lines are off by at most 1 / MT_PAGE_KNOT_PARTS of the duration: half a pixel on the widest screens. */
enum { MT_PAGE_KNOT_PARTS = 8192 };

/* Returns the knots of `count` times, which must never fall; the caller frees them. The first and the last time are
 * knots. There are at most 2 * MT_PAGE_KNOT_PARTS + 2. */
struct mt_page_knot *mt_page_knots_find(const uint64_t *times, size_t count, size_t *out_count);
