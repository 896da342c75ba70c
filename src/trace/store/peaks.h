/* Running totals, the highest moments of three measures, and what was live there.
 *
 * A peak's composition is copied not when it is reached but when it is about to change: as long as bytes only grow,
 * which is most of a step, a new peak costs a comparison. */
#ifndef MT_TRACE_PEAKS_H
#define MT_TRACE_PEAKS_H

#include "base/event.h"
#include "trace/store/measure.h"

/* The live blocks by category (mt_category_set of the run). */
struct mt_composition {
    struct mt_category_total {
        uint64_t allocated_bytes, requested_bytes, blocks;
    } category[MT_MOST_CATEGORIES];
};

/* bytes is the highest value of the measure so far; event the first that reached it. */
struct mt_peak {
    uint64_t bytes;
    int64_t event;
    struct mt_composition at; /* as it was there, unless stale: then it is what is live now */
};

/* The peaks of a run, or of a step. */
struct mt_peaks {
    struct mt_peak measure[MT_MEASURE_COUNT];
    unsigned stale; /* bit i: measure i's composition was not copied yet */
};

/* Invariant: now[allocated] and now[requested] are the sums over live.category, of which those from category_count on are
 * 0. */
struct mt_totals {
    uint32_t category_count;
    uint64_t now[MT_MEASURE_COUNT];
    struct mt_composition live;
};

/* Begins at `event`, where what is live is already a peak. */
void mt_peaks_begin(struct mt_peaks *peaks, const struct mt_totals *totals, int64_t event);

/* Before the totals fall or their composition changes: copies what is stale of the measures in `mask`. */
void mt_peaks_settle(struct mt_peaks *peaks, const struct mt_totals *totals, unsigned mask);

/* After they grew. */
static inline void mt_peaks_raise(struct mt_peaks *peaks, const struct mt_totals *totals, int64_t event)
{
    for (int i = 0; i < MT_MEASURE_COUNT; i++) {
        if (totals->now[i] <= peaks->measure[i].bytes)
            continue;
        peaks->measure[i].bytes = totals->now[i];
        peaks->measure[i].event = event;
        peaks->stale |= 1u << i;
    }
}

#endif
