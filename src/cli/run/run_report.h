/* What a run found, for people and as JSON. */
#ifndef MT_CLI_RUN_REPORT_H
#define MT_CLI_RUN_REPORT_H

#include "analysis/session.h"
#include "cli/output/output.h"

/* Describes the answer in JSON. */
extern const struct mt_row_type mt_run_answer_type;

/* Prints it; peaks and what they were made of are asked of the trace, if there is one. */
mt_status mt_run_report(const struct mt_run_plan *plan, const struct mt_run_result *result, mt_report_form form);

#endif
