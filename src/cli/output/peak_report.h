/* How high memory got and what it was made of, as `peak` and `run` show it. */
#ifndef MT_CLI_PEAK_REPORT_H
#define MT_CLI_PEAK_REPORT_H

#include "alloc/alloc.h"
#include "cli/output/question.h"

/* The three peaks of a run, by mt_measure. */
struct mt_run_peaks {
    struct mt_peak_row of[MT_MEASURE_COUNT];
};

/* Release in any case. */
mt_status mt_run_peaks_load(const struct mt_question *question, struct mt_run_peaks *out);
void mt_run_peaks_release(struct mt_run_peaks *peaks);

/* Of a run that was not traced: how high, but neither when nor of what. */
struct mt_run_peaks mt_run_peaks_of_stats(const struct mt_alloc_stats *stats);

/* Adds allocated_bytes, requested_bytes, reserved_bytes, by_category (of the allocated peak) and an object for each
 * peak that says when it was and what it was made of; of peaks of stats, null for what is not known. */
void mt_run_peaks_add_json(const struct mt_run_peaks *peaks, json_t *object);

/* Describes those members. */
extern const struct mt_row_type mt_run_peaks_type;

/* Two tables: the peaks, and what each was made of. */
void mt_run_peaks_print(const struct mt_run_peaks *peaks);

#endif
