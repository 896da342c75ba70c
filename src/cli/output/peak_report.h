/* The peaks of a run and their parts, as `peak`, `run` and `import` show them. */
#ifndef MT_CLI_PEAK_REPORT_H
#define MT_CLI_PEAK_REPORT_H

#include "alloc/alloc.h"
#include "cli/output/question.h"

/* The three peaks of a run, by mt_measure. */
struct mt_run_peaks {
    struct mt_peak_row of[MT_MEASURE_COUNT];
};

/* Reads the peaks of a run from its trace. The caller releases them, also after a failure. */
mt_status mt_run_peaks_load(const struct mt_question *question, struct mt_run_peaks *out);
void mt_run_peaks_release(struct mt_run_peaks *peaks);

/* Returns the peaks of a run without a trace: their bytes, without moments and parts. */
struct mt_run_peaks mt_run_peaks_of_stats(const struct mt_alloc_stats *stats);

/* The peaks as JSON has them: those whose moment is not known are NULL. Borrows. */
struct mt_run_peaks_answer {
    uint64_t bytes[MT_MEASURE_COUNT];
    const struct mt_peak_row *of[MT_MEASURE_COUNT];
    const struct mt_peak_share *shares; /* of the allocated peak; NULL: not known */
    size_t share_count;
};
extern const struct mt_row_type mt_run_peaks_type;
struct mt_run_peaks_answer mt_run_peaks_answer_of(const struct mt_run_peaks *peaks);

/* Prints two tables: the peaks, and the parts of each. */
void mt_run_peaks_print(const struct mt_run_peaks *peaks);

#endif
