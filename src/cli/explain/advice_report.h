/* Advice as people read it: what the peak is, what would lower it, and why. */
#ifndef MT_CLI_ADVICE_REPORT_H
#define MT_CLI_ADVICE_REPORT_H

#include "analysis/advise.h"
#include "cli/output/peak_report.h"

/* Prints the tables and the sentences below them. */
void mt_advice_print(const struct mt_question *question, const struct mt_advice_material *material,
                     const struct mt_run_peaks *peaks, const struct mt_advice *advice);

#endif
