/* A program of PyTorch that is run dry, in a process of its own or in one for each of its ranks: the options that say how, and
 * the run. Shared by the commands that do so once (dry-run) and many times (fit, sweep). */
#ifndef MT_CLI_DRY_CHILD_H
#define MT_CLI_DRY_CHILD_H

#include "cli/command.h"
#include "cli/record/recording.h"
#include "device/device.h"
#include "producers/program/rank_program.h"
#include "run/handover.h"

/* How a program is run dry. Its texts are borrowed. */
struct mt_dry_options {
    const char *assumed; /* the number that a value is that was not computed */
    const char *free;    /* the memory of the card that is free as the program begins; NULL: not said, all of it */
    const char *only;    /* a list of the ranks to run; NULL: not said */
    int64_t ranks;       /* 0: not said, which is as torchrun's words say, or one process */
    int64_t cards;       /* 0: not said, which is 1, or one for each rank of a node */
    int64_t steps;       /* 0: not said; MT_ALL_DRY_STEPS: the program is not ended */
    int64_t time_limit;  /* of the program, in seconds; 0: none */
    char *const *words;  /* the program and its arguments; NULL: none was given */
};

enum { MT_MOST_DRY_CARDS = 64, MT_MOST_DRY_STEPS = 1000000, MT_MOST_DRY_SECONDS = 1000000 };

/* Values before parsing. */
#define MT_DRY_OPTIONS_USUAL                                                                                           \
    {                                                                                                                  \
        .assumed = "1"                                                                                                 \
    }

/* Rows of a command's table, of the struct mt_dry_options `dry` in its struct. A command whose --steps says something else,
 * too, has a row of its own for it. */
#define MT_DRY_OPTIONS(type, dry)                                                                                      \
    MT_OPTION(INTEGER, type, dry.cards, "--cards", .value = "N", .low = 1, .high = MT_MOST_DRY_CARDS,                  \
              .help = "how many of them PROGRAM sees (1, or one for each rank of a node)"),                            \
        MT_OPTION(BYTES, type, dry.free, "--free", .value = "SIZE", .keeps_text = true,                                \
                  .help = "how much of the card is free, where other processes use the rest (all of it)"),             \
        MT_OPTION(INTEGER, type, dry.ranks, "--ranks", .value = "N", .low = 1, .high = MT_MOST_RANKS,                  \
                  .help = "number of ranks to run, one after another (default: from the torchrun command line)"),      \
        MT_OPTION(TEXT, type, dry.only, "--only", .value = "RANKS",                                                    \
                  .help = "run only these: 0,1,510-511 (up to 8 all, else some that stand for others)"),               \
        MT_OPTION(TEXT, type, dry.assumed, "--assume", .value = "NUMBER",                                              \
                  .help = "value assumed for numbers that are not computed, such as a loss (default: 1)")
#define MT_DRY_PROGRAM(type, dry)                                                                                      \
    MT_OPTION(REST, type, dry.words, "PROGRAM", .value = "PROGRAM [ARGS]", .takes = MT_TAKES_FILE,                     \
              .help = "what to run dry, and its arguments, which are left as they are")

/* One dry run. */
struct mt_dry_child {
    const struct mt_dry_options *options;
    const char *device;  /* a simulated one */
    const char *trace;   /* that the run is added to */
    const char *name;    /* of the run; NULL: the program's */
    const char *changes; /* of struct mt_dry_request */
    bool is_quiet;       /* nothing is told of its ranks */
};

/* Writes the spelling of the card with so much free as the options say. Fails with MT_USAGE if it is too long. */
mt_status mt_dry_device_spell(const struct mt_dry_options *options, const char *device, char out[MT_DEVICE_NAME]);

/* Has Python's programs that this process starts begin as dry runs. Fails with MT_USAGE for options or a device that a dry
 * run does not take, and if the Python package is not there. Call it once. */
mt_status mt_dry_children_prepare(const struct mt_dry_options *options, const char *device);

/* A run of a program. Invariant: the recording was begun unless its path is NULL; then it is to be ended. */
struct mt_dry_child_run {
    struct mt_recording recording;
    bool is_many; /* ranks, which tell what they have noted by themselves */
    int code;     /* the exit code; of ranks, the first that is not 0 */
};

/* Runs a program dry, with its output going to a file, or MT_OWN_OUTPUT. A program that fails is no failure. Fails with MT_USAGE
 * for words that a dry run does not take, and if it can't be started. */
mt_status mt_dry_child_start(const struct mt_dry_child *child, char *const *words, int output,
                             struct mt_dry_child_run *out);

/* The answers of a program that was run quietly: the runs and changes of its processes. Owns everything. */
struct mt_dry_outcome {
    bool is_many; /* as in struct mt_dry_child_run, with code */
    int code;
    struct mt_text said; /* the end of what it printed */
    struct mt_record_answer *answers;
    size_t count;
};

/* Runs a program dry with its stdout and stderr kept from the user. A program that fails is no failure. Release *out in
 * any case. */
mt_status mt_dry_child_run(const struct mt_dry_child *child, char *const *words, struct mt_dry_outcome *out);
void mt_dry_outcome_release(struct mt_dry_outcome *outcome);

/* Adds how a program failed: "exit code 1, KeyError: 'lr'". */
void mt_dry_outcome_add_failure(const struct mt_dry_outcome *outcome, struct mt_text *out);

#endif
