/* A program that another program starts in its own place: with its stdin, stdout, stderr, folder and signals. */
#ifndef MT_CLI_CHILD_PROGRAM_H
#define MT_CLI_CHILD_PROGRAM_H

#include "base/status.h"

/* Runs `words` (the program and its arguments, ending with NULL), found as a shell finds it, and waits until it
 * ends. Signals of the terminal (Ctrl-C, Ctrl-\) reach both processes, and this one goes on waiting. Signals that
 * are sent to this one alone are passed on. Signals that were ignored stay ignored for the program. *out_code is
 * as a shell has it: the exit code, or 128 and the number of the signal that ended the program. Fails with
 * MT_FAILED if it can't be started; *out_code is then 127 if there is no such program, and 126 if there is one. */
mt_status mt_child_program_run(char *const *words, int *out_code);

/* Does the same with the file `output` in the place of the program's stdout and stderr. */
mt_status mt_child_program_run_into(int output, char *const *words, int *out_code);

#endif
