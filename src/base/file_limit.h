/* Where files may grow no further (RLIMIT_FSIZE) the system sends a signal beside the error, SIGXFSZ, which ends the
 * process. A trace is not what a program is there for: between these two, writing one fails with the error alone.
 *
 * Threads: any, each for itself. */
#ifndef MT_BASE_FILE_LIMIT_H
#define MT_BASE_FILE_LIMIT_H

#include <signal.h>

/* Keeps the signal from the calling thread; what was kept from it before goes to *out_before. */
void mt_file_limit_hold(sigset_t *out_before);

/* As it was before; a signal that came meanwhile is dropped. */
void mt_file_limit_let_go(const sigset_t *before);

#endif
