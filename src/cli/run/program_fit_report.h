/* A program of PyTorch on a device: the answer for people or as JSON. */
#pragma once

#include "analysis/fit/fit_device.h"
#include "cli/output/output.h"
#include "cli/record/dry_options.h"

/* Tries the program's changes and prints the answer. Fails with MT_FAILED if the program does not fit, or fails itself. */
mt_status mt_program_fit(const struct mt_dry_options *program, const struct mt_fit_device *device, mt_report_form form);
