/* A program that another program starts in its own place: with its stdin, stdout, stderr, folder and signals. */
#ifndef MT_CLI_CHILD_PROGRAM_H
#define MT_CLI_CHILD_PROGRAM_H

#include "base/status.h"

/* Runs `words` (the program and its arguments, ending with NULL), found as a shell finds it, and waits until it ends.
 *
 * What the terminal sends (Ctrl-C, Ctrl-\) reaches it as it reaches us, who go on waiting; what is sent to us alone
 * is passed on. Signals that were ignored when we were started stay so for it.
 *
 * *out_code is what a shell would say: its exit code, or 128 and the signal's number if one ended it. MT_FAILED if it
 * can't be started; *out_code is then 127 if there is no such program, 126 if there is one. */
mt_status mt_child_program_run(char *const *words, int *out_code);

#endif
