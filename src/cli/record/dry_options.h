/* The options of a dry run, shared by the commands that make one (dry-run) or many (fit, sweep). */
#pragma once

#include "cli/command.h"
#include "producers/program/assumed_values.h"
#include "producers/program/dry_tasks.h"
#include "producers/program/rank_program.h"

/* Values before parsing. */
#define MT_DRY_OPTIONS_USUAL                                                                                           \
    {                                                                                                                  \
        .assumed = MT_ASSUMED_USUAL                                                                                    \
    }

/* Rows of a command's table, for the struct mt_dry_options `dry` in its struct. A command with another meaning of
 * --steps has its own row for it. */
#define MT_DRY_OPTIONS(type, dry)                                                                                      \
    MT_OPTION(INTEGER, type, dry.cards, "--cards", .value = "N", .low = 1, .high = MT_MOST_DRY_CARDS,                  \
              .help = "number of cards that PROGRAM sees (default: 1, or one for each rank of a node)"),               \
        MT_OPTION(BYTES, type, dry.free, "--free", .value = "SIZE", .keeps_text = true,                                \
                  .help = "free memory of the card, if other processes use the rest (default: all)"),                  \
        MT_OPTION(INTEGER, type, dry.ranks, "--ranks", .value = "N", .low = 1, .high = MT_MOST_RANKS,                  \
                  .help = "number of ranks to run (default: from the launcher's command line)"),                       \
        MT_OPTION(                                                                                                     \
            TEXT, type, dry.only, "--only", .value = "RANKS",                                                          \
            .help = "run only these: 0,1,510-511 (default: all up to 8, otherwise a few that represent the others)"),  \
        MT_OPTION(TEXT, type, dry.assumed, "--assume", .value = "VALUE",                                               \
                  .help = "used for values that are not computed: a number (default: 1); none, all or N% of masks"),   \
        MT_OPTION(TEXT, type, dry.weights, "--weights", .value = "from-config",                                        \
                  .help = "from_pretrained of transformers and diffusers makes weights from the configuration"),       \
        MT_OPTION(FLAG, type, dry.is_eager, "--no-compile", .help = "run the program without torch.compile"),          \
        MT_OPTION(TEXT, type, dry.inductor_cache, "--inductor-cache", .value = "DIR", .takes = MT_TAKES_FILE,          \
                  .help = "Inductor's cache of a run on a card, whose autotuning choices are used"),                   \
        MT_OPTION(INTEGER, type, dry.jobs, "--jobs", .value = "N", .low = 1, .high = MT_MOST_JOBS,                     \
                  .help = "processes to run at a time (default: as many as processors and host memory allow)")
#define MT_DRY_PROGRAM(type, dry)                                                                                      \
    MT_OPTION(REST, type, dry.words, "PROGRAM", .value = "PROGRAM [ARGS]", .takes = MT_TAKES_FILE,                     \
              .help = "the program to run dry, and its arguments"),                                                    \
        MT_OPTION(TEXT, type, dry.python, "--python", .value = "FILE", .takes = MT_TAKES_FILE, .help = MT_PYTHON_HELP)

/* The help of --page and --python. */
#define MT_PAGE_HELP "also write the page of memtrace timeline"
#define MT_PYTHON_HELP "the interpreter of a script (default: see above)"

/* A line of the help of commands that run a program. */
#define MT_SCRIPT_HELP                                                                                                 \
    "A Python script runs under python of $VIRTUAL_ENV, else .venv/bin/python, else python3 of $PATH.\n"

/* Returns the status of a dry run. Adds options to a failure that they can fix. */
mt_status mt_dry_hint(mt_status status, const struct mt_dry_options *options);
