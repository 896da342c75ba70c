/* The sections of a report, one a file, in the order of the page. Each adds its heading, its tables, and under each table
 * what its numbers show; of what the trace does not have it says which command would add it. Failures are the trace's. */
#ifndef MT_STUDY_REPORT_SECTIONS_H
#define MT_STUDY_REPORT_SECTIONS_H

#include "study/report_runs.h"

mt_status mt_report_timing(struct mt_report *report);
mt_status mt_report_peaks(struct mt_report *report);
mt_status mt_report_autocast(struct mt_report *report);
mt_status mt_report_residual(struct mt_report *report);
mt_status mt_report_categories(struct mt_report *report);
mt_status mt_report_largest(struct mt_report *report);
mt_status mt_report_kernels(struct mt_report *report);
mt_status mt_report_dtypes(struct mt_report *report);
mt_status mt_report_accumulation(struct mt_report *report);

/* The peaks of runs of one precision ("off", "bf16"), for two of the sections. */
void mt_report_peak_tables(struct mt_report *report, const char *autocast);

#endif
