/* Whether a PyTorch program fits a device: the answer as text or as JSON. */
#pragma once

#include "analysis/fit/fit_device.h"
#include "cli/output/output.h"
#include "cli/record/dry_options.h"

typedef enum mt_fit_strictness { MT_FIT_LENIENT, MT_FIT_STRICT } mt_fit_strictness;

/* Tries the program's changes and prints the answer. Fails with MT_FAILED if the program does not fit, or fails itself,
 * and with MT_NOT_CERTAIN if it fits, but strictness is MT_FIT_STRICT and some memory is unknown. */
mt_status mt_program_fit(const struct mt_dry_options *program, const struct mt_fit_device *device, mt_report_form form,
                         mt_fit_strictness strictness);
