/* A grid of dry runs of a program: values of its arguments that vary, and the table of what each combination took. */
#ifndef MT_CLI_PROGRAM_SWEEP_H
#define MT_CLI_PROGRAM_SWEEP_H

#include "cli/output/output.h"
#include "cli/record/dry_child.h"

struct mt_program_sweep {
    const struct mt_dry_options *program;
    const struct mt_option_list *vary; /* "batch=2,4,8" */
    const char *device, *trace;
    const char *name; /* of the runs, before the values; NULL: the program's */
};

/* Runs the program dry for each combination, the last --vary fastest, adds the runs to the trace, and prints the table. An
 * argument of the program, or what follows its =, is @NAME where it takes a value. Running out of memory is an answer.
 * Fails with MT_USAGE, before anything is run, for a list that is none, an @NAME that does not vary and a list that no
 * argument uses; with MT_FAILED if a run fails otherwise. */
mt_status mt_program_sweep(const struct mt_program_sweep *sweep, mt_report_form form);

#endif
