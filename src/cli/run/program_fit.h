/* A program of PyTorch on a device: dry runs of it, as it is and with changes, and the answer for people or as JSON. */
#ifndef MT_CLI_PROGRAM_FIT_H
#define MT_CLI_PROGRAM_FIT_H

#include "analysis/fit_device.h"
#include "cli/output/output.h"
#include "cli/record/dry_child.h"

/* Tries the program's changes and prints the answer. The dry runs are kept nowhere. Fails with MT_FAILED if the program does
 * not fit, or fails by itself. */
mt_status mt_program_fit(const struct mt_dry_options *program, const struct mt_fit_device *device, mt_report_form form);

#endif
