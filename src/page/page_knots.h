/* Knots: a few events, with straight lines between them that approximate the times of all others. A page draws its
 * first picture from them while it still reads the times of a million events. */
#pragma once

#include "base/packed_list.h"

struct mt_page_knot {
    uint64_t event; /* its position in the run */
    uint64_t time;
};

/* Lines are off by at most 1 / MT_PAGE_KNOT_PARTS of the duration: half a pixel on the widest screens. */
enum { MT_PAGE_KNOT_PARTS = 8192 };

/* Returns the knots of times, which must never fall; the caller frees them. The first and the last time are
 * knots. There are at most 2 * MT_PAGE_KNOT_PARTS + 2. */
struct mt_page_knot *mt_page_knots_find(const struct mt_packed_list *times, size_t *out_count);
