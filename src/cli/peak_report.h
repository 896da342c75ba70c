/* How high memory got and what it was made of, as `peak` and `run` show it. */
#ifndef MT_CLI_PEAK_REPORT_H
#define MT_CLI_PEAK_REPORT_H

#include "alloc/alloc.h"
#include "question.h"

/* The three peaks of a run, by mt_measure. */
struct mt_peaks {
    struct mt_peak of[MT_MEASURE_COUNT];
};

/* Release in any case. */
mt_status mt_peaks_load(const struct mt_question *question, struct mt_peaks *out);
void mt_peaks_release(struct mt_peaks *peaks);

/* Of a run that was not traced: how high, but neither when nor of what. */
struct mt_peaks mt_peaks_of_stats(const struct mt_alloc_stats *stats);

/* Adds allocated_bytes, requested_bytes, reserved_bytes, by_category (of the allocated peak) and an object for each
 * peak that says when it was and what it was made of; of peaks of stats, null for what is not known. */
void mt_peaks_add_json(const struct mt_peaks *peaks, json_t *object);

/* Two tables: the peaks, and what each was made of. */
void mt_peaks_print(const struct mt_peaks *peaks);

#endif
