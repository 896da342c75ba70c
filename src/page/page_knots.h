/* Knots: a few events whose times tell, by straight lines between them, those of all others nearly. A page draws its
 * first picture from these, while the times of a million events are still on their way. */
#ifndef MT_PAGE_PAGE_KNOTS_H
#define MT_PAGE_PAGE_KNOTS_H

#include <stddef.h>
#include <stdint.h>

struct mt_page_knot {
    uint64_t event; /* its position in the run */
    uint64_t time;
};

/* No line is further from a time than 1 / MT_PAGE_KNOT_PARTS of the last one: half a pixel on the widest screens. */
enum { MT_PAGE_KNOT_PARTS = 8192 };

/* The knots of `count` times that never fall, the first and the last among them; at most two for each part and two more.
 * The caller's, free(). */
struct mt_page_knot *mt_page_knots_find(const uint64_t *times, size_t count, size_t *out_count);

#endif
