/* A program of PyTorch that is run dry, in a process of its own: the options that say how, and its beginning. Shared by the
 * commands that do so once (dry-run) and many times (fit, sweep). */
#ifndef MT_CLI_DRY_CHILD_H
#define MT_CLI_DRY_CHILD_H

#include "cli/command.h"
#include "cli/record/recording.h"
#include "record/handover.h"

/* How a program is run dry. Its texts are borrowed. */
struct mt_dry_options {
    const char *assumed; /* the number that a value is that was not computed */
    int64_t cards;       /* 0: not said, which is 1 */
    int64_t steps;       /* 0: not said */
    char *const *words;  /* the program and its arguments; NULL: none was given */
};

enum { MT_MOST_DRY_CARDS = 64, MT_MOST_DRY_STEPS = 1000000 };

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
        MT_OPTION(TEXT, type, dry.assumed, "--assume", .value = "NUMBER",                                              \
                  .help = "what a value of PROGRAM is that was not computed, such as a loss (1)")
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
};

/* Has Python's programs that this process starts begin as dry runs. Fails with MT_USAGE for options or a device that a dry
 * run does not take, and if the Python package is not there. Call it once. */
mt_status mt_dry_children_prepare(const struct mt_dry_options *options, const char *device);

/* Makes the request for the program that is started next. The recording is to be ended, unless this fails. */
mt_status mt_dry_child_begin(const struct mt_dry_child *child, struct mt_recording *out);

/* The answers of a program that was run quietly: the runs and changes of its processes. Owns everything. */
struct mt_dry_outcome {
    int code;            /* its exit code */
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
