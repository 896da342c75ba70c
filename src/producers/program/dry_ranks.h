/* A dry run of a program with many ranks: runs all, those that are listed, or those that stand for all.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/program/program_job.h"
#include "producers/program/program_outcome.h"
#include "producers/program/python_server.h"
#include "producers/program/rank_program.h"

/* The ranks to run, and how. */
struct mt_dry_ranks {
    const struct mt_rank_program *program;
    const char *only; /* a list for mt_rank_list_read; NULL: ranks are chosen here */
    const struct mt_program_job *job;
    struct mt_environment *environment;
    struct mt_children *children;    /* without other programs */
    struct mt_python_server *server; /* NULL: none */
    int output;                      /* as for mt_child_start */
    int64_t limit;                   /* ranks at a time, at least 1 */
};

/* Runs the ranks. Sets the outcome's code, its notes, and its stand-ins if ranks were chosen. Fails if a rank can't be
 * started, and with MT_USAGE for an invalid list. */
mt_status mt_dry_ranks_run(const struct mt_dry_ranks *ranks, struct mt_program_outcome *outcome);
