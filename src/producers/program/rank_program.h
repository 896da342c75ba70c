/* A program with many ranks. A launcher would start one process for each rank.
 *
 *   torchrun --nnodes 4 --nproc-per-node 8 train.py --lr 1 ──▶ 32 ranks, 8 a node, python3 -u train.py --lr 1
 *
 * Threads: any, one at a time for an object. */
#pragma once

#include "base/environment.h"
#include "base/status.h"
#include "producers/program/launcher_words.h"

#include <stdbool.h>
#include <stdint.h>

/* Invariants: ranks == 0 for a program with one process; otherwise ranks % per_node == 0 and 0 < per_node <= ranks. */
struct mt_rank_program {
    int64_t ranks, per_node;
    int64_t cards;           /* that a process sees; 0: not in the launcher's words */
    char **words;            /* of a process, ending with NULL; borrowed texts, except for the next two; owned */
    char *interpreter;       /* NULL: the words begin with the user's */
    char *local_rank;        /* the word with a rank's number in its node; NULL: there is none */
    struct mt_launch launch; /* owned */
};

/* Reads the words. `ranks` is the requested number, or 0 to use the launcher's words; `cards` likewise, for each node.
 * Words without a launcher belong to the program, which is one process if `ranks` is 0. Fails as mt_launch_read does,
 * and with MT_USAGE if the words contradict the numbers. Release *out in any case; the words must outlive it. */
mt_status mt_rank_program_read(char *const *words, int64_t ranks, int64_t cards, struct mt_rank_program *out);
void mt_rank_program_release(struct mt_rank_program *program);

/* Sets the launcher's variables that are common to all processes, and removes the variables of another job's ranks. */
void mt_rank_program_prepare(const struct mt_rank_program *program, struct mt_environment *environment);

/* Sets the variables and the word that give a process its rank. The words are valid until the next call. */
void mt_rank_program_enter(const struct mt_rank_program *program, int64_t rank, struct mt_environment *environment);

/* Reads a list of ranks, "0,1,510-511", into `*out`, ascending, each once; the caller frees it. Fails with MT_USAGE for
 * other texts and for ranks that do not exist. */
mt_status mt_rank_list_read(const char *text, int64_t ranks, int64_t **out, int64_t *out_count);
