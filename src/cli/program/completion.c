/* Completions of bash, zsh and fish. */
#include "cli/program/help_pages.h"

#include "device/device.h"

#include <string.h>

/* The query with which a shell gets the numbers and names of a trace's runs. The first line of the answer is a
 * title. */
#define MT_COMPLETION_RUNS "SELECT id AS run FROM run UNION ALL SELECT name FROM run WHERE name IS NOT NULL"

/* Adds the kinds of devices, and all cards that can be simulated. */
static void add_devices(struct mt_text *out)
{
    mt_text_add(out, "auto cuda cpu sim");
    for (const char *const *card = mt_card_names(); *card != NULL; card++)
        mt_text_add(out, " sim:%s", *card);
}

/* Adds suggested values, separated by spaces; other values may also be valid. */
static void add_words(const struct mt_option *option, struct mt_text *out)
{
    if (option->takes == MT_TAKES_DEVICE)
        add_devices(out);
    if (option->choices == NULL)
        return;
    for (int i = 0; option->choices[i] != NULL; i++)
        mt_text_add(out, "%s%s", i > 0 ? " " : "", option->choices[i]);
}

/* Adds the names of all commands, separated by spaces. */
static void add_commands(struct mt_text *out)
{
    for (size_t i = 0; mt_commands[i] != NULL; i++)
        mt_text_add(out, "%s%s", i > 0 ? " " : "", mt_commands[i]->name);
}

/* Adds `text` in single quotes, with quotes inside written as '\''. */
static void add_quoted(struct mt_text *out, const char *text)
{
    mt_text_add(out, "'");
    for (; *text != '\0'; text++)
        mt_text_add(out, *text == '\'' ? "'\\''" : "%c", *text);
    mt_text_add(out, "'");
}

/* The functions between the tables of options. They split the line at its blanks themselves, since COMP_WORDS has
 * "sim:h200" and "--mode=fwd" in pieces. A reply leaves out the pieces that bash took for earlier words. */
static const char bash_functions[] =
    "# _memtrace_runs WORD...: the runs of the trace that the words name, or of the usual one\n"
    "_memtrace_runs() {\n"
    "    local trace=" MT_DEFAULT_TRACE " previous='' word\n"
    "    for word in \"$@\"; do\n"
    "        [[ $previous == --trace ]] && trace=$word\n"
    "        [[ $word == --trace=* ]] && trace=${word#--trace=}\n"
    "        previous=$word\n"
    "    done\n"
    "    [[ -f $trace ]] && memtrace sql --csv --trace \"$trace\" '" MT_COMPLETION_RUNS "' 2>/dev/null | tail -n +2\n"
    "}\n"
    "\n"
    "# _memtrace_values KIND WORDS VALUE LINE...: the values of that kind that begin with VALUE, one a line\n"
    "_memtrace_values() {\n"
    "    local kind=$1 words=$2 value=$3\n"
    "    shift 3\n"
    "    case $kind in\n"
    "    file) compgen -W \"$words\" -- \"$value\"; compgen -f -- \"$value\" ;;\n"
    "    run) local IFS=$'\\n'; compgen -W \"$(_memtrace_runs \"$@\")\" -- \"$value\" ;;\n"
    "    command) compgen -W \"$(_memtrace_commands)\" -- \"$value\" ;;\n"
    "    *) compgen -W \"$words\" -- \"$value\" ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_memtrace() {\n"
    "    COMPREPLY=()\n"
    "    local line=${COMP_LINE:0:COMP_POINT} current='' option='' place=0 words count i takes reply known lead=''\n"
    "    read -ra words <<<\"$line\"\n"
    "    count=${#words[@]}\n"
    "    if [[ $line != *[[:space:]] ]]; then\n"
    "        ((count -= 1))\n"
    "        current=${words[count]}\n"
    "        unset \"words[count]\"\n"
    "    fi\n"
    "    if ((count < 2)); then\n"
    "        COMPREPLY=($(compgen -W \"$(_memtrace_commands) --help --version\" -- \"$current\"))\n"
    "        return\n"
    "    fi\n"
    "    for ((i = 2; i < count; i++)); do\n"
    "        if [[ -n $option ]]; then\n"
    "            option=''\n"
    "        elif [[ ${words[i]} != -* ]]; then\n"
    "            ((place += 1))\n"
    "        elif [[ -n $(_memtrace_takes \"${words[1]}\" \"${words[i]}\") ]]; then\n"
    "            option=${words[i]}\n"
    "        fi\n"
    "    done\n"
    "    if [[ -z $option && $current == -*=* ]]; then\n"
    "        option=${current%%=*}\n"
    "        current=${current#*=}\n"
    "        [[ $COMP_WORDBREAKS == *=* ]] || lead=$option=\n"
    "    elif [[ -z $option && $current == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$(_memtrace_options \"${words[1]}\")\" -- \"$current\"))\n"
    "        return\n"
    "    fi\n"
    "    takes=$(_memtrace_takes \"${words[1]}\" \"${option:-$place}\")\n"
    "    [[ -n $takes ]] || return\n"
    "    [[ ${takes%% *} == file ]] && compopt -o filenames 2>/dev/null\n"
    "    known=''\n"
    "    [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && known=${current%:*}:\n"
    "    while IFS= read -r reply; do\n"
    "        [[ ${takes%% *} == run ]] && reply=$(printf '%q' \"$reply\")\n"
    "        COMPREPLY+=(\"$lead${reply#\"$known\"}\")\n"
    "    done < <(_memtrace_values \"${takes%% *}\" \"${takes#* }\" \"$current\" \"${words[@]}\")\n"
    "}\n"
    "\n"
    "complete -F _memtrace memtrace\n";

/* Adds the kind of the value, a space, and words: "file small medium", "run ". Not for flags. */
static void add_bash_takes(const struct mt_option *option, struct mt_text *out)
{
    static const char *const kinds[] = {[MT_TAKES_TEXT] = "text",
                                        [MT_TAKES_FILE] = "file",
                                        [MT_TAKES_RUN] = "run",
                                        [MT_TAKES_COMMAND] = "command",
                                        [MT_TAKES_DEVICE] = "text"};
    struct mt_text takes = {0};
    mt_text_add(&takes, "%s ", kinds[option->takes]);
    add_words(option, &takes);
    add_quoted(out, takes.data);
    mt_text_release(&takes);
}

static void add_bash_takes_of(const struct mt_command *command, struct mt_text *out)
{
    int place = 0;
    struct mt_option_table table;
    mt_options_expand(command->options, &table);
    for (const struct mt_option *option = table.items; option->name != NULL; option++) {
        if (option->kind == MT_OPTION_FLAG)
            continue;
        mt_text_add(out, "    %s:", command->name);
        if (mt_option_is_positional(option))
            mt_text_add(out, "%d", place++);
        else
            mt_text_add(out, "%s", option->name);
        if (option->alias != NULL)
            mt_text_add(out, " | %s:%s", command->name, option->alias);
        mt_text_add(out, ") echo ");
        add_bash_takes(option, out);
        mt_text_add(out, " ;;\n");
    }
}

static void add_bash_options_of(const struct mt_command *command, struct mt_text *out)
{
    mt_text_add(out, "    %s) echo '", command->name);
    struct mt_option_table table;
    mt_options_expand(command->options, &table);
    for (const struct mt_option *option = table.items; option->name != NULL; option++)
        if (!mt_option_is_positional(option))
            mt_text_add(out, "%s%s%s ", option->alias != NULL ? option->alias : "", option->alias != NULL ? " " : "",
                        option->name);
    mt_text_add(out, "' ;;\n");
}

/* Adds a shell function with a case for each command. */
static void add_bash_table(const char *name, const char *subject,
                           void (*add_rows)(const struct mt_command *command, struct mt_text *out), struct mt_text *out)
{
    mt_text_add(out, "%s() {\n    case %s in\n", name, subject);
    for (size_t i = 0; mt_commands[i] != NULL; i++)
        add_rows(mt_commands[i], out);
    mt_text_add(out, "    esac\n}\n\n");
}

void mt_completion_add_bash(struct mt_text *out)
{
    mt_text_add(out, "# Completion of memtrace for bash: made by memtrace help --completions bash.\n\n"
                     "_memtrace_commands() {\n    echo '");
    add_commands(out);
    mt_text_add(out, "'\n}\n\n# _memtrace_options COMMAND: its options\n");
    add_bash_table("_memtrace_options", "$1", add_bash_options_of, out);
    mt_text_add(out, "# _memtrace_takes COMMAND OPTION|PLACE: what its value is, and words; nothing for a flag\n");
    add_bash_table("_memtrace_takes", "$1:$2", add_bash_takes_of, out);
    mt_text_add(out, "%s", bash_functions);
}

/* The functions before those of each command. */
static const char zsh_functions[] = "_memtrace_runs() {\n"
                                    "    local trace=" MT_DEFAULT_TRACE "\n"
                                    "    local -i place=${words[(I)--trace]}\n"
                                    "    (( place )) && trace=${words[place+1]}\n"
                                    "    local -a runs\n"
                                    "    [[ -f $trace ]] && runs=(${(f)\"$(memtrace sql --csv --trace \"$trace\" \\\n"
                                    "        '" MT_COMPLETION_RUNS "' 2>/dev/null | tail -n +2)\"})\n"
                                    "    compadd -a runs\n"
                                    "}\n\n";

/* Adds `text` for use in single quotes, with a backslash before characters that are special to _arguments. */
static void add_zsh_spec(struct mt_text *out, const char *text, const char *special)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            mt_text_add(out, "'\\''");
        else
            mt_text_add(out, strchr(special, *text) != NULL ? "\\%c" : "%c", *text);
    }
}

/* Adds the action that completes a value. */
static void add_zsh_action(const struct mt_option *option, struct mt_text *out)
{
    struct mt_text words = {0}, escaped = {0}; /* an unescaped colon would end the action */
    add_words(option, &words);
    add_zsh_spec(&escaped, mt_text_get(&words), ":\\");
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

static void add_zsh_argument(const struct mt_option *option, const char *name, struct mt_text *out)
{
    bool is_positional = mt_option_is_positional(option);
    mt_text_add(out, " \\\n        '");
    if (!is_positional) {
        mt_text_add(out, "%s%s%s[", option->kind == MT_OPTION_LIST ? "*" : "", name,
                    option->kind == MT_OPTION_FLAG ? "" : "=");
        add_zsh_spec(out, option->help, "[]\\");
        mt_text_add(out, "]");
    }
    if (option->kind != MT_OPTION_FLAG) {
        mt_text_add(out, ":");
        add_zsh_spec(out, is_positional || option->value == NULL ? name : option->value, ":\\");
        mt_text_add(out, ":");
        add_zsh_action(option, out);
    }
    mt_text_add(out, "'");
}

static void add_zsh_command(const struct mt_command *command, struct mt_text *out)
{
    mt_text_add(out, "_memtrace_command_%s() {\n    _arguments -s", command->name);
    struct mt_option_table table;
    mt_options_expand(command->options, &table);
    for (const struct mt_option *option = table.items; option->name != NULL; option++) {
        add_zsh_argument(option, option->name, out);
        if (option->alias != NULL)
            add_zsh_argument(option, option->alias, out);
    }
    mt_text_add(out, "\n}\n\n");
}

static void add_zsh_commands(struct mt_text *out)
{
    mt_text_add(out, "_memtrace_commands() {\n    local -a commands=(\n");
    for (size_t i = 0; mt_commands[i] != NULL; i++) {
        mt_text_add(out, "        '%s:", mt_commands[i]->name);
        add_zsh_spec(out, mt_commands[i]->summary, ":\\");
        mt_text_add(out, "'\n");
    }
    mt_text_add(out, "    )\n    _describe -t commands command commands\n}\n\n");
}

void mt_completion_add_zsh(struct mt_text *out)
{
    mt_text_add(out,
                "#compdef memtrace\n# Completion of memtrace for zsh: made by memtrace help --completions zsh.\n\n");
    add_zsh_commands(out);
    mt_text_add(out, "%s", zsh_functions);
    for (size_t i = 0; mt_commands[i] != NULL; i++)
        add_zsh_command(mt_commands[i], out);
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

static const char fish_functions[] = "function __memtrace_is --argument-names command\n"
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

/* Adds text in single quotes, in which fish has two escapes, \\ and \'. */
static void add_fish_quoted(struct mt_text *out, const char *text)
{
    mt_text_add(out, "'");
    for (; *text != '\0'; text++)
        mt_text_add(out, strchr("\\'", *text) != NULL ? "\\%c" : "%c", *text);
    mt_text_add(out, "'");
}

/* Adds the words that complete a value: " -x -a 'infer fwd'". */
static void add_fish_values(const struct mt_option *option, struct mt_text *out)
{
    struct mt_text words = {0};
    add_words(option, &words);
    if (!mt_option_is_positional(option))
        mt_text_add(out, option->takes == MT_TAKES_FILE ? " -r -F" : " -x");
    else if (option->takes == MT_TAKES_FILE)
        mt_text_add(out, " -F");
    if (option->takes == MT_TAKES_RUN)
        mt_text_add(out, " -a '(__memtrace_runs)'");
    else if (option->takes == MT_TAKES_COMMAND)
        add_commands(&words);
    if (words.length > 0) {
        mt_text_add(out, " -a ");
        add_fish_quoted(out, words.data);
    }
    mt_text_release(&words);
}

static void add_fish_name(const char *name, struct mt_text *out)
{
    bool is_long = strncmp(name, "--", 2) == 0;
    mt_text_add(out, is_long ? " -l %s" : " -s %s", name + (is_long ? 2 : 1));
}

static void add_fish_option(const struct mt_command *command, const struct mt_option *option, struct mt_text *out)
{
    mt_text_add(out, "complete -c memtrace -n '__memtrace_is %s'", command->name);
    if (!mt_option_is_positional(option))
        add_fish_name(option->name, out);
    if (option->alias != NULL)
        add_fish_name(option->alias, out);
    if (option->kind != MT_OPTION_FLAG)
        add_fish_values(option, out);
    mt_text_add(out, " -d ");
    add_fish_quoted(out, option->help);
    mt_text_add(out, "\n");
}

void mt_completion_add_fish(struct mt_text *out)
{
    mt_text_add(out, "# Completion of memtrace for fish: made by memtrace help --completions fish.\n\n%s\n",
                fish_functions);
    for (size_t i = 0; mt_commands[i] != NULL; i++) {
        mt_text_add(out, "complete -c memtrace -n __memtrace_begins -a %s -d ", mt_commands[i]->name);
        add_fish_quoted(out, mt_commands[i]->summary);
        mt_text_add(out, "\n");
    }
    for (size_t i = 0; mt_commands[i] != NULL; i++) {
        struct mt_option_table table;
        mt_options_expand(mt_commands[i]->options, &table);
        for (const struct mt_option *option = table.items; option->name != NULL; option++)
            add_fish_option(mt_commands[i], option, out);
    }
}
