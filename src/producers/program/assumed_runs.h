/* Dry runs of one program that differ in what they assume where values are not computed, side by side.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/program/dry_tasks.h"

/* The dry run with one of the values. */
struct mt_assumed_run {
    char *value;                       /* as the user wrote it */
    struct mt_program_outcome outcome; /* its runs are in the trace */
};

/* Runs a program dry for each value of a list, which is child->options->assumed (producers/program/assumed_values.h), and adds the runs
 * to the child's trace in the list's order. `output` is for the first value; of the others, the end of the output is kept. A program
 * that fails is no failure. Fails as mt_dry_options_check and mt_dry_child_run do, and with MT_FAILED if several are interrupted. The
 * caller releases *out_runs in any case. */
mt_status mt_assumed_runs_make(const struct mt_dry_child *child, char *const *words, int output,
                               struct mt_assumed_run **out_runs, size_t *out_count);
void mt_assumed_runs_release(struct mt_assumed_run *runs, size_t count);
