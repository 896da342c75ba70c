/* Parallel dry runs of one program with different assumptions about values that are not computed.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/program/dry_tasks.h"

/* The dry run with one of the values. */
struct mt_assumed_run {
    char *value;                       /* as the user wrote it */
    struct mt_program_outcome outcome; /* its runs are in the trace */
};

/* Runs a program dry for each value of a list, which is child->options->assumed (producers/program/assumed_values.h),
 * and adds the runs to the child's trace in the list's order. `output` is for the first value; for the others, only the
 * end of the output is kept. It is not a failure if the program fails. Fails as mt_dry_options_check and
 * mt_dry_child_run do, and with MT_FAILED if several are interrupted. The caller releases *out_runs in any case. */
mt_status mt_assumed_runs_make(const struct mt_dry_child *child, char *const *words, int output,
                               struct mt_assumed_run **out_runs, size_t *out_count);
void mt_assumed_runs_release(struct mt_assumed_run *runs, size_t count);
