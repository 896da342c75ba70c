#include "trace/store/peaks.h"

#include <string.h>

const char *mt_measure_name(mt_measure measure)
{
    static const char *const names[MT_MEASURE_COUNT] = {"allocated", "requested", "reserved"};
    return names[measure];
}

void mt_peaks_begin(struct mt_peaks *peaks, const struct mt_totals *totals, int64_t event)
{
    *peaks = (struct mt_peaks){.stale = (1u << MT_MEASURE_COUNT) - 1};
    for (int i = 0; i < MT_MEASURE_COUNT; i++) {
        peaks->measure[i].bytes = totals->now[i];
        peaks->measure[i].event = event;
    }
}

void mt_peaks_settle(struct mt_peaks *peaks, const struct mt_totals *totals, unsigned mask)
{
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        if (peaks->stale & mask & 1u << i)
            memcpy(&peaks->measure[i].at, &totals->live, totals->category_count * sizeof totals->live.category[0]);
    peaks->stale &= ~mask;
}
