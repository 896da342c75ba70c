/* Child programs that share this process's standard streams, folder and signals.
 *
 * Signals of the terminal (Ctrl-C, Ctrl-\\) reach all processes, and this one keeps waiting. Signals that are sent only
 * to this one are passed on. Either way the caller can see a signal that requests termination, and starts no further
 * program. Signals that were ignored stay ignored in the programs.
 *
 * The caller provides the programs' environment, so that this process's own never changes.
 *
 * Threads: one at a time. Signals are blocked only for the calling thread. */
#pragma once

#include "base/environment.h"
#include "base/status.h"

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

/* Used instead of a file: programs print where this process does. */
enum { MT_OWN_OUTPUT = -1 };

/* The running programs. Between begin and end this process leaves its signals to them. */
struct mt_children {
    sigset_t awaited, mask;  /* the signals that are passed on; those that were blocked before */
    struct sigaction before; /* the handling of SIGCHLD before */
    int ending;              /* SIGINT, SIGTERM, SIGHUP or SIGQUIT, if this process has received one; 0: none */
    pid_t *running;          /* an array for MT_HOST_ADD */
    int64_t count;
};

void mt_children_begin(struct mt_children *children);
void mt_children_end(struct mt_children *children);

/* Starts `words` (the program and its arguments, ending with NULL), found as a shell finds it, in an environment. It
 * prints to the file `output` or, for MT_OWN_OUTPUT, where this process does. Fails with MT_FAILED if it can't be
 * started; then *out_code is 127 if there is no such program, and 126 if there is one. */
mt_status mt_child_start(struct mt_children *children, char *const *words, const struct mt_environment *environment,
                         int output, pid_t *out, int *out_code);

/* Starts a program in the same way, with a file that stays open in it. It is not among `children`: the caller waits for
 * *out. */
mt_status mt_helper_start(struct mt_children *children, char *const *words, const struct mt_environment *environment,
                          int output, int kept_file, pid_t *out);

/* Adds a running child process. */
void mt_child_adopt(struct mt_children *children, pid_t process);

/* Takes the signals that have arrived, and passes them on. */
void mt_children_take_signals(struct mt_children *children);

/* Sends a signal to all that are running. */
void mt_children_signal(const struct mt_children *children, int signal);

/* Waits until a program ends, for at most `most_ms` milliseconds; -1: without a limit. Returns its process, or 0 if
 * none has ended. *out_code is a shell's: the exit code, 128 plus the number of the signal that ended the program, or
 * 127 if another thread has waited for the program. */
pid_t mt_child_wait(struct mt_children *children, int64_t most_ms, int *out_code);

/* Runs one program from its start to its end, with stdout and stderr going to `output`. Fails, and sets its code, as
 * mt_child_start and mt_child_wait do. */
mt_status mt_child_program_run(char *const *words, const struct mt_environment *environment, int output, int *out_code);
