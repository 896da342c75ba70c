/* A dry run of a PyTorch program, in one process or in one process for each of its ranks.
 *
 * Threads: one at a time. */
#pragma once

#include "device/device.h"
#include "producers/program/program_outcome.h"
#include "producers/program/python_server.h"

/* How a program is run dry. Its texts are borrowed. */
struct mt_dry_options {
    const char *assumed;        /* for values that are not computed, in the syntax of mt_assumed_value_read */
    const char *weights;        /* "from-config": models of libraries need no checkpoint; NULL: they load theirs */
    const char *inductor_cache; /* the folder with a card's autotuning choices; NULL: none */
    const char *free;           /* the free memory of the card when the program begins; NULL: all of it */
    const char *only;           /* a list of the ranks to run; NULL: all, or some that stand for all */
    int64_t ranks;              /* 0: from the launcher's words, or one process */
    int64_t cards;              /* 0: 1, or one for each rank of a node */
    int64_t steps;      /* 0: loops end once they repeat themselves; MT_ALL_DRY_STEPS: the program is not ended */
    int64_t time_limit; /* of the program, in seconds; 0: none */
    int64_t jobs;       /* processes at a time; 0: as for mt_dry_tasks_run */
    bool is_eager;      /* torch.compile is disabled */
    const char *python; /* the interpreter of a script; NULL: the user's (program_words.h) */
    char *const *words; /* the program and its arguments; NULL: not given */
};

enum { MT_MOST_DRY_CARDS = 64, MT_MOST_DRY_STEPS = 1000000, MT_MOST_DRY_SECONDS = 1000000 };

/* One dry run. */
struct mt_dry_child {
    const struct mt_dry_options *options;
    const char *device;              /* a simulated one */
    const char *trace;               /* that the run is added to */
    const char *name;                /* of the run; NULL: the program's */
    const char *changes;             /* of struct mt_dry_request */
    struct mt_python_server *server; /* for processes with the same imports; borrowed; NULL: none */
};

/* Writes the spelling of the card, with its free memory if the options set that. Fails with MT_USAGE if it is too
 * long. */
mt_status mt_dry_device_spell(const struct mt_dry_options *options, const char *device, char out[MT_DEVICE_NAME]);

/* Fails with MT_USAGE for options or a device that a dry run does not support. */
mt_status mt_dry_options_check(const struct mt_dry_options *options, const char *device);
