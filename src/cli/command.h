/* Commands, and their table (main.c). A command's help text is next to its function. */
#pragma once

#include "answer/row.h"
#include "cli/program/options.h"

#include <stdbool.h>

struct mt_question;

/* A command. Its options struct begins with a bool for --help. */
struct mt_command {
    const char *name;
    const char *summary;      /* one sentence, for the list of commands and the first line of its help */
    const char *usage;        /* the arguments after the name: "[N] [OPTIONS]" */
    const char *details;      /* paragraphs between usage and options; NULL: none */
    const char *failed_means; /* the meaning of exit code 1, if it is a regular result; NULL: the command failed */
    const char *examples;     /* lines to paste into a shell */
    const struct mt_option *options; /* ends with a NULL name */
    const void *defaults;            /* the options struct before anything is parsed */
    size_t options_bytes;
    const struct mt_row_type *answer; /* of --json, after the fields of the run; NULL: its fields vary */
    /* Prints the command's answer; main prints the text of a failure. A command has one of these two: `ask` if it reads
     * a run of a trace, which is opened before it and closed after it. */
    mt_status (*run)(const void *options);
    mt_status (*ask)(const struct mt_question *question, const void *options);
};

/* The options of every command that reads a trace. First member of the command's own struct. */
struct mt_trace_options {
    bool help;
    bool json;
    const char *trace;
    const char *run; /* number or name; NULL: the newest */
};

#define MT_DEFAULT_TRACE "memtrace.db"

/* The members of a command for its options struct: its type, and its values before parsing. */
#define MT_OPTIONS_OF(type, ...) .defaults = &(const type){__VA_ARGS__}, .options_bytes = sizeof(type)

#define MT_OPTION_HELP(type) MT_OPTION(FLAG, type, help, "--help", .alias = "-h", .help = "print this and exit")
#define MT_OPTION_JSON(type) MT_OPTION(FLAG, type, json, "--json", .help = "print JSON")
#define MT_OPTION_WAIT(type)                                                                                           \
    MT_OPTION(INTEGER, type, wait, "--wait", .value = "SECONDS", .low = 0, .high = 86400,                              \
              .help = "for another process that writes the trace (" MT_TEXT_OF(MT_USUAL_WAIT) ")")
#define MT_USUAL_WAIT 10
#define MT_TEXT_OF(number) MT_TEXT_OF_WORD(number)
#define MT_TEXT_OF_WORD(word) #word
#define MT_OPTIONS_END                                                                                                 \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }

/* The last entries of the option table of a command that reads a trace. */
#define MT_TRACE_OPTIONS                                                                                               \
    MT_OPTION(TEXT, struct mt_trace_options, run, "--run", .value = "N|NAME", .takes = MT_TAKES_RUN,                   \
              .help = "the run (default: the newest)"),                                                                \
        MT_OPTION(TEXT, struct mt_trace_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,            \
                  .help = "the trace (default: " MT_DEFAULT_TRACE ")"),                                                \
        MT_OPTION_JSON(struct mt_trace_options), MT_OPTION_HELP(struct mt_trace_options), MT_OPTIONS_END

/* Stores the positional argument of a command that reads a trace: the file or folder of a trace in `trace`, and other
 * text in `run`. `options` is a struct mt_trace_options. */
mt_status mt_trace_options_take(const char *text, void *options);

/* An entry for such a command that has no other positional argument. */
#define MT_RUN_ARGUMENT                                                                                                \
    MT_OPTION(TEXT, struct mt_trace_options, help, "RUN", .value = "RUN|FILE", .takes = MT_TAKES_RUN,                  \
              .take = mt_trace_options_take, .help = "a run, as --run names it, or the file of a trace, as --trace")

extern const struct mt_command mt_command_run, mt_command_runs, mt_command_peak, mt_command_top, mt_command_categories,
    mt_command_events, mt_command_used, mt_command_steps, mt_command_kernels, mt_command_sql, mt_command_version,
    mt_command_help, mt_command_sweep, mt_command_diff, mt_command_advise, mt_command_fit, mt_command_oom,
    mt_command_check, mt_command_import, mt_command_report, mt_command_export, mt_command_timeline,
    mt_command_attention, mt_command_record, mt_command_dry_run, mt_command_cards, mt_command_ranks, mt_command_watch,
    mt_command_fleet, mt_command_verify, mt_command_start, mt_command_mcp;

/* The program's help: a sentence, and lines to paste into a shell. */
#define MT_PROGRAM_SUMMARY "Tells where every byte of GPU memory goes in training a transformer, and why."
#define MT_PROGRAM_EXAMPLES                                                                                            \
    "  memtrace train.py\n"                                                                                            \
    "  memtrace run --model 2.7B --seq 256 --mode fwd_bwd\n"                                                           \
    "  memtrace peak\n"                                                                                                \
    "  memtrace top 10\n"                                                                                              \
    "  memtrace help run\n"

/* Every command in the order of the help, ending with NULL. */
extern const struct mt_command *const mt_commands[];

/* Finds the command with this name. If there is none, fails with MT_USAGE; the text names the most similar command and
 * all commands. */
mt_status mt_command_find(const char *name, const struct mt_command **out);

/* Runs a command with arguments, which it may keep until it returns. */
mt_status mt_command_run_words(const struct mt_command *command, int count, char **arguments);

/* Print the list of commands, and the help of one. */
void mt_help_print_all(void);
void mt_help_print(const struct mt_command *command);
