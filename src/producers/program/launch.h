/* The processes that a launcher starts, according to its command line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MT_MOST_RANKS = 1 << 20 };

/* The variables that give a process its rank (rank_variables.h). */
typedef enum mt_rank_style { MT_RANK_TORCH, MT_RANK_DEEPSPEED, MT_RANK_SLURM, MT_RANK_MPI } mt_rank_style;

/* A parsed command line. Borrows the words that it was read from, and owns `variables`, `answer` and `answer_words`. */
struct mt_launch {
    const char *name;   /* of the launcher; NULL: the words are the program's own */
    char *const *words; /* of the launcher, from the first on */
    mt_rank_style style;
    bool is_one_process;     /* the launcher starts one process, without a rank */
    int64_t ranks;           /* 0: not given, as are the next four */
    int64_t nodes, per_node; /* per_node: ranks of a node */
    int64_t hosts, slots;    /* in a list of hosts; slots: ranks that each can have */
    int64_t cards;           /* that a process sees; 0: one for each rank of a node */
    bool cards_are_own;      /* no two processes see the same card */
    bool is_module;          /* the script is a module */
    bool is_plain;           /* the script is started without Python */
    const char *local_rank;  /* the option that gives a process its local rank; NULL: it has none */
    char *const *script;     /* and its arguments */
    char **variables;        /* of the environment, "NAME=VALUE"; an array for MT_HOST_ADD */
    size_t variable_count;
    char *answer, **answer_words; /* texts that accelerate has returned; NULL: none */
};
