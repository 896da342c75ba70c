/* Completion for zsh, by its _arguments. */
#include "cli/program/completion.h"

#include <string.h>

/* Before the commands' own functions. */
static const char functions[] = "_memtrace_runs() {\n"
                                "    local trace=" MT_DEFAULT_TRACE "\n"
                                "    local -i place=${words[(I)--trace]}\n"
                                "    (( place )) && trace=${words[place+1]}\n"
                                "    local -a runs\n"
                                "    [[ -f $trace ]] && runs=(${(f)\"$(memtrace sql --csv --trace \"$trace\" \\\n"
                                "        '" MT_COMPLETION_RUNS "' 2>/dev/null | tail -n +2)\"})\n"
                                "    compadd -a runs\n"
                                "}\n\n";

/* Adds `text` inside of single quotes, with a backslash before what _arguments would take for a sign of its own. */
static void add_spec(struct mt_text *out, const char *text, const char *special)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            mt_text_add(out, "'\\''");
        else
            mt_text_add(out, strchr(special, *text) != NULL ? "\\%c" : "%c", *text);
    }
}

/* What completes a value, behind its name. */
static void add_action(const struct mt_option *option, struct mt_text *out)
{
    struct mt_text words = {0}, escaped = {0}; /* a colon as it is would end the action */
    mt_completion_add_words(option, &words);
    add_spec(&escaped, mt_text_get(&words), ":\\");
    const char *list = mt_text_get(&escaped);
    if (option->takes == MT_TAKES_RUN)
        mt_text_add(out, "_memtrace_runs");
    else if (option->takes == MT_TAKES_COMMAND)
        mt_text_add(out, "_memtrace_commands");
    else if (option->takes == MT_TAKES_FILE && words.length > 0)
        mt_text_add(out, "{_alternative \"words:word:(%s)\" \"files:file:_files\"}", list);
    else if (option->takes == MT_TAKES_FILE)
        mt_text_add(out, "_files");
    else if (words.length > 0)
        mt_text_add(out, "(%s)", list);
    mt_text_release(&words);
    mt_text_release(&escaped);
}

static void add_argument(const struct mt_option *option, const char *name, struct mt_text *out)
{
    bool is_positional = mt_option_is_positional(option);
    mt_text_add(out, " \\\n        '");
    if (!is_positional) {
        mt_text_add(out, "%s%s%s[", option->kind == MT_OPTION_LIST ? "*" : "", name,
                    option->kind == MT_OPTION_FLAG ? "" : "=");
        add_spec(out, option->help, "[]\\");
        mt_text_add(out, "]");
    }
    if (option->kind != MT_OPTION_FLAG) {
        mt_text_add(out, ":");
        add_spec(out, is_positional || option->value == NULL ? name : option->value, ":\\");
        mt_text_add(out, ":");
        add_action(option, out);
    }
    mt_text_add(out, "'");
}

static void add_command(const struct mt_command *command, struct mt_text *out)
{
    mt_text_add(out, "_memtrace_command_%s() {\n    _arguments -s", command->name);
    struct mt_option_table table;
    mt_options_expand(command->options, &table);
    for (const struct mt_option *option = table.items; option->name != NULL; option++) {
        add_argument(option, option->name, out);
        if (option->alias != NULL)
            add_argument(option, option->alias, out);
    }
    mt_text_add(out, "\n}\n\n");
}

static void add_commands(struct mt_text *out)
{
    mt_text_add(out, "_memtrace_commands() {\n    local -a commands=(\n");
    for (size_t i = 0; mt_commands[i] != NULL; i++) {
        mt_text_add(out, "        '%s:", mt_commands[i]->name);
        add_spec(out, mt_commands[i]->summary, ":\\");
        mt_text_add(out, "'\n");
    }
    mt_text_add(out, "    )\n    _describe -t commands command commands\n}\n\n");
}

void mt_completion_add_zsh(struct mt_text *out)
{
    mt_text_add(out,
                "#compdef memtrace\n# Completion of memtrace for zsh: made by memtrace help --completions zsh.\n\n");
    add_commands(out);
    mt_text_add(out, "%s", functions);
    for (size_t i = 0; mt_commands[i] != NULL; i++)
        add_command(mt_commands[i], out);
    mt_text_add(out, "_memtrace() {\n"
                     "    local context state state_descr line\n"
                     "    typeset -A opt_args\n"
                     "    _arguments -C '1:command:_memtrace_commands' '*::argument:->argument'\n"
                     "    if [[ $state == argument ]] && (( $+functions[_memtrace_command_$words[1]] )); then\n"
                     "        _memtrace_command_$words[1]\n"
                     "    fi\n"
                     "}\n\n"
                     "_memtrace \"$@\"\n");
}
