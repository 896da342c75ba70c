/* memtrace help: the list of commands, or what one does. */
#include "command.h"

#include <stdio.h>

struct help_options {
    bool help;
    const char *command; /* NULL: all */
};

static const struct mt_option options[] = {
    {.name = "COMMAND",
     .help = "the command to explain",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct help_options, command)},
    MT_OPTION_HELP(struct help_options),
    MT_OPTIONS_END,
};

void mt_help_print(const struct mt_command *command)
{
    struct mt_text list = {0};
    mt_options_describe(command->options, &list);
    printf("%s\n\nusage: memtrace %s%s%s\n", command->summary, command->name, command->usage[0] != '\0' ? " " : "",
           command->usage);
    if (command->details != NULL)
        printf("\n%s", command->details);
    printf("\nOptions:\n%s\nExamples:\n%s", list.data, command->examples);
    mt_text_release(&list);
}

void mt_help_print_all(void)
{
    puts("memtrace tells where every byte of GPU memory goes in training a transformer, and why.\n\n"
         "usage: memtrace COMMAND [OPTIONS]\n\nCommands:");
    for (const struct mt_command *const *command = mt_commands; *command != NULL; command++)
        printf("  %-12s%s\n", (*command)->name, (*command)->summary);
    puts("\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 not a trace or a damaged one, 4 no such device, 5 out of\n"
         "device memory.\n\n"
         "Examples:\n"
         "  memtrace run --model 2.7B --seq 256 --mode fwd_bwd\n"
         "  memtrace peak\n"
         "  memtrace top 10\n"
         "  memtrace help run");
}

static mt_status run_help(const void *given)
{
    const struct help_options *help = given;
    if (help->command == NULL) {
        mt_help_print_all();
        return MT_OK;
    }
    const struct mt_command *command;
    mt_status status = mt_command_find(help->command, &command);
    if (status == MT_OK)
        mt_help_print(command);
    return status;
}

const struct mt_command mt_command_help = {
    .name = "help",
    .summary = "Lists the commands, or explains one.",
    .usage = "[COMMAND]",
    .examples = "  memtrace help\n"
                "  memtrace help run\n",
    .options = options,
    .defaults = &(const struct help_options){0},
    .options_bytes = sizeof(struct help_options),
    .run = run_help,
};
