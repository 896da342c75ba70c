/* The command lines of launchers, which start one process for each rank of a program.
 *
 *   torchrun --nnodes 4 --nproc-per-node 8 train.py     srun -n 16 --ntasks-per-node 8 python train.py
 *   accelerate launch --num_processes 8 train.py        mpirun -np 8 --map-by ppr:4:node python train.py
 *   deepspeed --num_gpus 8 train.py
 *
 * Launchers are found by the names of their programs, by path too, and by the names of their Python modules.
 *
 * Threads: one at a time. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MT_MOST_RANKS = 1 << 20 };

/* The variables that give a process its rank (rank_variables.h). */
typedef enum mt_rank_style { MT_RANK_TORCH, MT_RANK_DEEPSPEED, MT_RANK_SLURM, MT_RANK_MPI } mt_rank_style;

/* A command line, read. Borrows the words that it was read from, and owns `variables`, `answer` and `answer_words`. */
struct mt_launch {
    const char *name;   /* of the launcher; NULL: the words are the program's own */
    char *const *words; /* of the launcher, from the first on */
    mt_rank_style style;
    bool is_one_process;     /* the launcher starts one process, without a rank */
    int64_t ranks;           /* 0: not given, as are the next four */
    int64_t nodes, per_node; /* ranks of a node */
    int64_t hosts, slots;    /* in a list of hosts; ranks that each can have */
    int64_t cards;           /* that a process sees; 0: one for each rank of a node */
    bool is_module;          /* the script is a module */
    bool is_plain;           /* the script is started without Python */
    const char *local_rank;  /* the option that gives a process its local rank; NULL: it has none */
    char *const *script;     /* and its arguments */
    char **variables;        /* of the environment, "NAME=VALUE"; an array for MT_HOST_ADD */
    size_t variable_count;
    char *answer, **answer_words; /* texts that a launcher has made itself; NULL: none */
};

/* True if the words start a launcher. */
bool mt_launcher_is(char *const *words);

/* Reads the words of a program. `cards` is the number of cards of a node, 0 if it is not known. Fails with MT_USAGE for options
 * that are not understood, and with MT_FAILED if accelerate can't be started, which reads its own options. Release *out in any
 * case. */
mt_status mt_launch_read(char *const *words, int64_t cards, struct mt_launch *out);
void mt_launch_release(struct mt_launch *launch);

/* Returns the Python that the launcher runs under. The caller frees it. */
char *mt_launch_find_python(const struct mt_launch *launch);
