/* The measures of memory that have a peak. */
#ifndef MT_TRACE_MEASURE_H
#define MT_TRACE_MEASURE_H

typedef enum mt_measure {
    MT_MEASURE_ALLOCATED, /* live blocks, with rounding */
    MT_MEASURE_REQUESTED, /* live blocks, as asked */
    MT_MEASURE_RESERVED,  /* segments */
    MT_MEASURE_COUNT
} mt_measure;

/* "allocated", … as in summary_peak.measure. */
const char *mt_measure_name(mt_measure measure);

#endif
