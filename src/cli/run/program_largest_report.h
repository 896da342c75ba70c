/* The largest value with which a PyTorch program fits a device: the answer as text or as JSON. */
#pragma once

#include "analysis/fit/program_largest.h"
#include "cli/output/output.h"

/* Searches the value and prints the answer. Fails as mt_program_largest_find, and with MT_FAILED if no value fits, or
 * the program fails. */
mt_status mt_program_largest(const struct mt_program_largest *question, mt_report_form form);
