/* The answer of `fit`, as text and as JSON. */
#pragma once

#include "analysis/fit/fit.h"
#include "analysis/fit/fit_device.h"
#include "cli/output/output.h"
#include "trace/query/trace.h"

/* The question. `run` is the traced run of the plan; NULL: the plan is from options. The plan's device is the simulated
 * one in `device`. */
struct mt_fit_question {
    const struct mt_run_plan *plan;
    const struct mt_run *run;
    const struct mt_fit_device *device;
};

/* Describes the answer in JSON. */
extern const struct mt_row_type mt_fit_answer_type;

/* Prints "on sim:rtx4090 with 23.52 GiB, 520.00 MiB of which are kept free: 23.01 GiB", and a blank line. */
void mt_fit_device_print(const struct mt_fit_device *device);

/* Prints the answer. */
void mt_fit_report(const struct mt_fit_question *question, const struct mt_fit_answer *found, mt_report_form form);
