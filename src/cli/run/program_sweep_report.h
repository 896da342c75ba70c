/* A grid of dry runs of a program: the table of the memory that each combination needs. */
#pragma once

#include "analysis/program_sweep.h"
#include "cli/output/output.h"

/* Runs the sweep and prints the table, even if the sweep ends early. Fails as mt_program_sweep_run, and with MT_FAILED
 * if a run failed for another reason than out of memory. */
mt_status mt_program_sweep(const struct mt_program_sweep *sweep, mt_report_form form);
