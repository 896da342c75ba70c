/* What a run found, for people and as JSON. */
#ifndef MT_CLI_RUN_REPORT_H
#define MT_CLI_RUN_REPORT_H

#include "analysis/session.h"

typedef enum mt_report_form { MT_REPORT_TEXT, MT_REPORT_JSON } mt_report_form;

/* Prints it; peaks and what they were made of are asked of the trace, if there is one. */
mt_status mt_run_report(const struct mt_run_plan *plan, const struct mt_run_result *result, mt_report_form form);

#endif
