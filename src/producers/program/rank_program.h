/* A program of many ranks: what torchrun would start, one process a rank.
 *
 *   torchrun --nnodes 4 --nproc-per-node 8 train.py --lr 1 ──▶ 32 ranks, 8 a node, python3 -u train.py --lr 1
 *
 * Threads: any, one at a time for an object. */
#pragma once

#include "base/environment.h"
#include "base/status.h"
#include "producers/program/torchrun_words.h"

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialized: a program that is one process. Invariants: ranks % per_node == 0; 0 < per_node <= ranks. */
struct mt_rank_program {
    int64_t ranks, per_node;
    char **words;      /* of a rank's process, ending with NULL; its texts are borrowed, but the first */
    char *interpreter; /* owned; NULL: the first word is borrowed, too */
};

/* Reads the words. `ranks` is the number that was asked for, 0 if torchrun's words say it; `per_node` likewise. Without torchrun
 * the words are the program's own. MT_USAGE if the words contradict the numbers, or are not understood. The caller releases
 * *out; the words must outlive it. */
mt_status mt_rank_program_read(char *const *words, int64_t ranks, int64_t per_node, struct mt_rank_program *out);
void mt_rank_program_release(struct mt_rank_program *program);

/* Sets the variables by which torchrun tells a process its rank. */
void mt_rank_program_enter(const struct mt_rank_program *program, int64_t rank, struct mt_environment *environment);

/* Reads a list of ranks, "0,1,510-511", into `*out`, ascending, each once; the caller frees it. MT_USAGE for another text, and for
 * a rank that there is not. */
mt_status mt_rank_list_read(const char *text, int64_t ranks, int64_t **out, int64_t *out_count);
