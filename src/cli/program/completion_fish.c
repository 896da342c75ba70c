/* Completion for fish: a line for each command and each option. */
#include "cli/program/completion.h"

#include <string.h>

static const char functions[] = "function __memtrace_is --argument-names command\n"
                                "    set -l words (commandline -opc)\n"
                                "    test (count $words) -ge 2; and test \"$words[2]\" = \"$command\"\n"
                                "end\n\n"
                                "function __memtrace_begins\n"
                                "    test (count (commandline -opc)) -eq 1\n"
                                "end\n\n"
                                "function __memtrace_runs\n"
                                "    set -l words (commandline -opc)\n"
                                "    set -l trace " MT_DEFAULT_TRACE "\n"
                                "    if set -l place (contains -i -- --trace $words)\n"
                                "        set trace $words[(math $place + 1)]\n"
                                "    end\n"
                                "    test -f \"$trace\"; and memtrace sql --csv --trace \"$trace\" \\\n"
                                "        '" MT_COMPLETION_RUNS "' 2>/dev/null | tail -n +2\n"
                                "end\n\n"
                                "complete -c memtrace -f\n";

/* In single quotes fish knows two escapes, \\ and \'. */
static void add_quoted(struct mt_text *out, const char *text)
{
    mt_text_add(out, "'");
    for (; *text != '\0'; text++)
        mt_text_add(out, strchr("\\'", *text) != NULL ? "\\%c" : "%c", *text);
    mt_text_add(out, "'");
}

/* What completes a value: " -x -a 'infer fwd'". */
static void add_values(const struct mt_option *option, struct mt_text *out)
{
    struct mt_text words = {0};
    mt_completion_add_words(option, &words);
    if (!mt_option_is_positional(option))
        mt_text_add(out, option->takes == MT_TAKES_FILE ? " -r -F" : " -x");
    else if (option->takes == MT_TAKES_FILE)
        mt_text_add(out, " -F");
    if (option->takes == MT_TAKES_RUN)
        mt_text_add(out, " -a '(__memtrace_runs)'");
    else if (option->takes == MT_TAKES_COMMAND)
        mt_completion_add_commands(&words);
    if (words.length > 0) {
        mt_text_add(out, " -a ");
        add_quoted(out, words.data);
    }
    mt_text_release(&words);
}

static void add_name(const char *name, struct mt_text *out)
{
    bool is_long = strncmp(name, "--", 2) == 0;
    mt_text_add(out, is_long ? " -l %s" : " -s %s", name + (is_long ? 2 : 1));
}

static void add_option(const struct mt_command *command, const struct mt_option *option, struct mt_text *out)
{
    mt_text_add(out, "complete -c memtrace -n '__memtrace_is %s'", command->name);
    if (!mt_option_is_positional(option))
        add_name(option->name, out);
    if (option->alias != NULL)
        add_name(option->alias, out);
    if (option->kind != MT_OPTION_FLAG)
        add_values(option, out);
    mt_text_add(out, " -d ");
    add_quoted(out, option->help);
    mt_text_add(out, "\n");
}

void mt_completion_add_fish(struct mt_text *out)
{
    mt_text_add(out, "# Completion of memtrace for fish: made by memtrace help --completions fish.\n\n%s\n", functions);
    for (size_t i = 0; mt_commands[i] != NULL; i++) {
        mt_text_add(out, "complete -c memtrace -n __memtrace_begins -a %s -d ", mt_commands[i]->name);
        add_quoted(out, mt_commands[i]->summary);
        mt_text_add(out, "\n");
    }
    for (size_t i = 0; mt_commands[i] != NULL; i++) {
        struct mt_option_table table;
        mt_options_expand(mt_commands[i]->options, &table);
        for (const struct mt_option *option = table.items; option->name != NULL; option++)
            add_option(mt_commands[i], option, out);
    }
}
