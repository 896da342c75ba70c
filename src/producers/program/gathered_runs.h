/* Moves a program's runs from temporary traces to the traces where they belong.
 *
 * Threads: one at a time for a trace. */
#pragma once

#include "producers/program/program_outcome.h"

/* Appends each trace of the outcome's runs to the trace of the same name in another folder, the folder of the trace at
 * `trace`, an absolute path. The answers then have these traces and the runs' numbers there. Fails as mt_trace_append
 * does. */
mt_status mt_gathered_runs_append(struct mt_program_outcome *outcome, const char *trace);
