/* Parallel dry runs, each in its own process. A program with many ranks does not run together with other tasks: its
 * ranks run in parallel. Python programs share their imports through their server, or through one that lasts as long as
 * the call.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/program/dry_child.h"

/* A dry run to make. Set child, words and output, and zero the rest. */
struct mt_dry_task {
    struct mt_dry_child child; /* its texts are borrowed */
    char *const *words;        /* borrowed */
    int output;                /* a file, MT_OWN_OUTPUT or MT_KEEP_OUTPUT */

    /* Set once it has ended. A program that fails is not a failure. The caller releases the outcome of every task. */
    mt_status status; /* as for mt_dry_child_run */
    struct mt_program_outcome outcome;

    bool ends_all; /* `ended` may set it: no further task begins, and running tasks are terminated without a report */
};

enum { MT_MOST_JOBS = 1024 };

/* Runs the tasks, at most `jobs` at a time; 0: one for each processor, limited by free host memory. Calls `ended`,
 * unless it is NULL, on this thread, in the order in which tasks end. mt_last_error() then has the text of a task's
 * failure. After Ctrl-C or SIGTERM no further task begins, and it fails with MT_FAILED, "interrupted". */
mt_status mt_dry_tasks_run(struct mt_dry_task *tasks, size_t count, int64_t jobs,
                           void (*ended)(void *context, struct mt_dry_task *task), void *context);

/* Runs a program dry. `output` is a file, MT_OWN_OUTPUT or MT_KEEP_OUTPUT. It is not a failure if the program fails.
 * Fails with MT_USAGE for words that a dry run does not support, and if the Python package is missing or the program
 * can't be started; then out->code is set as by mt_child_start. Release *out in any case. */
mt_status mt_dry_child_run(const struct mt_dry_child *child, char *const *words, int output,
                           struct mt_program_outcome *out);
