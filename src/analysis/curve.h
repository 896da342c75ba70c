/* The live bytes of a window after every event, and what is left of them without some; for this folder only.
 *
 *   moment     0        1        2                  k = event - first_event + 1
 *   position   2f-1     2f 2f+1  2f+2 2f+3          f = first_event
 *
 * Moment 0 is what was live before the window. */
#ifndef MT_WHATIF_CURVE_H
#define MT_WHATIF_CURVE_H

#include "analysis/advice.h"

/* A block is absent at from <= position < to. Invariant: begin <= from < to <= end of its lifetime in the window. */
struct mt_cut {
    uint32_t block; /* index */
    int64_t from, to;
};

/* Invariants: live[k] is what is live at moment k; change holds 2 * count zeros between calls. */
struct mt_curve {
    const struct mt_block_row *blocks; /* borrowed */
    int64_t first_position;
    size_t count;
    uint64_t *live;   /* requested bytes */
    uint64_t *ns;     /* the device's clock */
    uint64_t *change; /* of what is live, by position; wraps around below 0 */
    uint64_t peak_bytes;
    int64_t peak_position; /* that reached it first */
};

void mt_curve_create(const struct mt_advice_input *input, struct mt_curve *out);
void mt_curve_release(struct mt_curve *curve);

/* The time of a position; before the window and after it, of its ends. */
uint64_t mt_curve_ns(const struct mt_curve *curve, int64_t position);

/* What is left of the curve without what was cut out. */
struct mt_cut_curve {
    uint64_t peak_bytes;
    uint64_t most_bytes; /* absent at one moment */
    int64_t most_position;
};
struct mt_cut_curve mt_curve_cut(struct mt_curve *curve, const struct mt_cut *cuts, size_t count);

#endif
