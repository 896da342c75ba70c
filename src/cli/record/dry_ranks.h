/* A dry run of a program of many ranks: runs all, those that were asked for, or those that stand for all, and tells which ranks
 * request the same. */
#ifndef MT_CLI_RECORD_DRY_RANKS_H
#define MT_CLI_RECORD_DRY_RANKS_H

#include "cli/record/recording.h"
#include "producers/program/rank_program.h"

/* The ranks to run, and how. */
struct mt_dry_ranks {
    const struct mt_rank_program *program;
    const char *only; /* a list for mt_rank_list_read; NULL: the choice is made here */
    const struct mt_recording *recording;
    int output;    /* as of mt_children_begin */
    bool is_quiet; /* nothing is told of what ranks have noted, and which stand for others */
};

/* Runs the ranks. *out_code is the exit code of the first rank that failed, else 0. Fails if a rank can't be started, and with
 * MT_USAGE for a list that is none. */
mt_status mt_dry_ranks_run(const struct mt_dry_ranks *ranks, int *out_code);

/* True if the process's run ended out of memory. */
bool mt_dry_ranks_is_out_of_memory(const struct mt_recording *recording, int64_t pid);

#endif
