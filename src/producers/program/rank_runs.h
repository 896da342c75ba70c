/* Runs ranks of a program. The first one runs alone, since it decides at which iterations loops end
 * (python/memtrace/dry/steps.py), and then several run at a time, not counting ranks that wait for another rank's
 * message.
 *
 *   mail folder   rank.N    rank N is to be run          (this process writes it, before the first begins)
 *                 wanted.N  a rank waits for a message of rank N, which is not to be run: it is run, too
 *                 waits.N   rank N waits
 *                 gone.N    rank N has ended
 *                 stuck     all wait for each other: they continue without the messages
 *
 * The ranks' side is src/producers/torch/dry/dry_mail.h. Threads: the main one. */
#pragma once

#include "producers/program/python_server.h"
#include "producers/program/rank_program.h"

#include <sys/types.h>

struct mt_rank_run {
    int64_t rank;
    pid_t pid; /* 0: not started */
    int code;  /* its exit code, as in a shell */
};

/* Invariant: runs[0 .. count) have different ranks. */
struct mt_rank_runs {
    const struct mt_rank_program *program;
    struct mt_environment *environment; /* of the ranks; borrowed, and changed for each */
    struct mt_python_server *server;    /* NULL: none; borrowed */
    int output;                         /* as for mt_child_start */
    int64_t limit;                      /* ranks at a time, without waiting ones; at least 1 */
    char *mail;                         /* the folder */
    struct mt_rank_run *runs;           /* an array for MT_HOST_ADD, in the order in which they begin */
    int64_t count, started;
    bool first_has_ended;
};

/* Makes the mail folder in the folder of the job, and names it in the environment. `runs` has its program, environment,
 * output and limit; the rest is zero. Borrows the program and the environment. MT_FAILED if the folder can't be made.
 * Call mt_rank_runs_end in any case. */
mt_status mt_rank_runs_begin(struct mt_rank_runs *runs, const char *folder);
void mt_rank_runs_end(struct mt_rank_runs *runs);

/* Adds a rank, unless it was added before. Returns its place in runs. */
int64_t mt_rank_runs_add(struct mt_rank_runs *runs, int64_t rank);

/* Returns the rank that ran as that process; NULL if none did. */
struct mt_rank_run *mt_rank_runs_find(const struct mt_rank_runs *runs, pid_t pid);

/* Runs the ranks that have not run yet, and the ranks that they want. Starts no further rank after a signal ended one
 * or requested this process's end, or after `goes_on` returned false. `children` has no other programs. Fails with
 * MT_FAILED if a program can't be started; its code is stored. */
mt_status mt_rank_runs_run(struct mt_rank_runs *runs, struct mt_children *children,
                           bool (*goes_on)(void *context, const struct mt_rank_run *run), void *context);
