/* memtrace: the program. The only place that connects devices, allocator, model and trace, and the only one that prints
 * or exits.
 *
 *   memtrace COMMAND [OPTIONS]     the exit code is the status of base/status.h
 *   memtrace PROGRAM               memtrace start PROGRAM */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "producers/program/launcher_words.h"
#include "producers/program/program_words.h"
#include "trace/store/connection.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct mt_command *const mt_commands[] = {
    &mt_command_start,      &mt_command_run,     &mt_command_record,
    &mt_command_dry_run,    &mt_command_sweep,   &mt_command_attention,
    &mt_command_runs,       &mt_command_peak,    &mt_command_top,
    &mt_command_diff,       &mt_command_ranks,   &mt_command_fleet,
    &mt_command_categories, &mt_command_events,  &mt_command_used,
    &mt_command_steps,      &mt_command_kernels, &mt_command_advise,
    &mt_command_watch,      &mt_command_fit,     &mt_command_oom,
    &mt_command_check,      &mt_command_report,  &mt_command_timeline,
    &mt_command_export,     &mt_command_import,  &mt_command_sql,
    &mt_command_verify,     &mt_command_mcp,     &mt_command_cards,
    &mt_command_version,    &mt_command_help,    NULL,
};

enum { COMMAND_COUNT = sizeof mt_commands / sizeof mt_commands[0] - 1 };

mt_status mt_command_find(const char *name, const struct mt_command **out)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = mt_commands[i]->name;
        if (strcmp(names[i], name) == 0) {
            *out = mt_commands[i];
            return MT_OK;
        }
    }
    return mt_fail_unknown("command", name, names, COMMAND_COUNT);
}

static mt_status ask(const struct mt_command *command, const void *options)
{
    struct mt_question question;
    MT_TRY(mt_question_open(options, &question));
    mt_status status = command->ask(&question, options);
    mt_question_close(&question);
    return status;
}

mt_status mt_command_run_words(const struct mt_command *command, int count, char **arguments)
{
    assert((command->run != NULL) != (command->ask != NULL));
    assert(command->ask == NULL || command->options_bytes >= sizeof(struct mt_trace_options));
    void *options = mt_host_alloc(command->options_bytes);
    memcpy(options, command->defaults, command->options_bytes);
    mt_status status = mt_options_parse(command->options, count, arguments, options);
    bool wants_help = *(const bool *)options;
    if (status != MT_OK)
        mt_fail_context(status, "%s", command->name);
    else if (wants_help)
        mt_help_print(command);
    else
        status = command->ask != NULL ? ask(command, options) : command->run(options);
    free(options);
    return status;
}

/* Returns the command named by the first argument. --help and --version count as commands. */
static const char *command_word(const char *argument)
{
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
        return "help";
    return strcmp(argument, "--version") == 0 ? "version" : argument;
}

/* True if the word is an option of `memtrace start`: --device or --device=CARD. */
static bool is_start_option(const char *word)
{
    for (const struct mt_option *option = mt_command_start.options; option->name != NULL; option++) {
        const size_t length = strlen(option->name);
        if (option->name[0] == '-' && strncmp(word, option->name, length) == 0 && strchr("=", word[length]) != NULL)
            return true;
    }
    return false;
}

static mt_status run_program(int count, char **arguments)
{
    if (count < 2) {
        mt_help_print_all();
        return MT_OK;
    }
    const struct mt_command *command;
    mt_status status = mt_command_find(command_word(arguments[1]), &command);
    if (status == MT_OK)
        return mt_command_run_words(command, count - 2, arguments + 2);
    if (is_start_option(arguments[1]) || mt_program_names_file(arguments[1]) || mt_launch_is_python(arguments + 1))
        return mt_command_run_words(&mt_command_start, count - 1, arguments + 1);
    return status;
}

/* Prints the failure after the answer so far. */
static void print_failure(void)
{
    fflush(stdout);
    mt_note("%s", mt_last_error());
}

/* Allocates or ends the program. For libraries whose allocation failures are easily overlooked. */
static void *take_memory(size_t bytes)
{
    return mt_host_resize(NULL, bytes, 1);
}

static void ignore(int signal)
{
    (void)signal;
}

/* Makes a write beyond the file size limit fail without ending the program. Uses a handler, since started programs
 * inherit ignored signals. */
static void outlive_file_limit(void)
{
    const struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART};
    sigaction(SIGXFSZ, &action, NULL);
}

int main(int count, char **arguments)
{
    outlive_file_limit();
    json_set_alloc_funcs(take_memory, free);
    mt_database_end_without_memory();
    mt_output_begin();
    mt_status status = run_program(count, arguments);
    if (status != MT_OK)
        print_failure();
    mt_status written = mt_output_end();
    if (status == MT_OK && written != MT_OK)
        print_failure();
    return (int)mt_status_keep(status, written);
}
