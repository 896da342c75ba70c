/* Keeps SIGXFSZ from a thread that writes a trace. The system sends that signal, in addition to the error, when a file
 * may grow no further (RLIMIT_FSIZE), and it ends the process. A program must not end because its trace can't be
 * written, so between these two functions the write fails with the error alone.
 *
 * Any thread may call them, for itself. */
#pragma once

#include <signal.h>

/* Blocks the signal in the calling thread and sets *out_before to its signal mask before that. */
void mt_file_limit_hold(sigset_t *out_before);

/* Restores the signal mask; a signal that came meanwhile is dropped. */
void mt_file_limit_let_go(const sigset_t *before);
