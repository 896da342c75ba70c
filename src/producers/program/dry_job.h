/* A dry run from its beginning to its end: the program's words, its files, and the environment that makes Python
 * processes start as dry runs.
 *
 * Threads: one at a time for an object. */
#pragma once

#include "base/environment.h"
#include "producers/program/child_program.h"
#include "producers/program/dry_child.h"
#include "producers/program/program_job.h"
#include "producers/program/program_words.h"
#include "producers/program/rank_program.h"

#include <stdio.h>

/* Owns its parts, but borrows the child. */
struct mt_dry_job {
    const struct mt_dry_child *child;
    struct mt_program_words words;
    struct mt_rank_program program; /* its ranks; without ranks, the program is one process */
    struct mt_program_job files;
    char *overlay; /* the folder for files that the program writes */
    struct mt_environment environment;
    FILE *printed; /* the kept output; NULL: it is not kept */
    int output;    /* as for mt_child_start */
};

/* Makes the files and the environment. Borrows `words`. `output` is a file, MT_OWN_OUTPUT or MT_KEEP_OUTPUT. Fails with
 * MT_USAGE for words that a dry run does not support, and if files can't be made or the Python package is missing. Call
 * mt_dry_job_end in any case. */
mt_status mt_dry_job_begin(const struct mt_dry_child *child, char *const *words, int output, struct mt_dry_job *out);

/* Starts the program, which is one process. Fails as mt_python_server_start does. */
mt_status mt_dry_job_start(struct mt_dry_job *job, struct mt_children *children, pid_t *out, int *out_code);

/* Runs the ranks of a program to their end, `limit` at a time. `children` has no other programs. Fails as
 * mt_dry_ranks_run does. */
mt_status mt_dry_job_run_ranks(struct mt_dry_job *job, struct mt_children *children, int64_t limit,
                               struct mt_program_outcome *outcome);

/* Removes the files. Sets the outcome's path, is_many and kept output. */
void mt_dry_job_end(struct mt_dry_job *job, struct mt_program_outcome *outcome);
