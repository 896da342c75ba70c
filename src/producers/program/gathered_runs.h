/* The runs of a program that had traces of its own, moved to where they belong.
 *
 * Threads: one at a time for a trace. */
#pragma once

#include "producers/program/program_outcome.h"

/* Appends each trace of the outcome's runs to the trace of the same name in another folder, the folder of the trace at `trace`, an
 * absolute path. *out_shift is added to the number of the outcome's first run; 0 if there is none. Fails as mt_trace_append
 * does. */
mt_status mt_gathered_runs_append(const struct mt_program_outcome *outcome, const char *trace, int64_t *out_shift);
