/* Completion for bash, from version 3.2 on, with or without the package bash-completion. */
#include "cli/program/completion.h"

/* Between the tables, which are made of the options. COMP_WORDS is of no use: bash cuts "sim:h200" and "--mode=fwd" in
 * pieces, so the line is cut at its blanks, and what bash took for an earlier word is left out of the replies. */
static const char functions[] =
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

/* "file small medium", "run ", "text ": the kind, a space, and words; nothing for a flag. */
static void add_takes(const struct mt_option *option, struct mt_text *out)
{
    static const char *const kinds[] = {[MT_TAKES_TEXT] = "text",
                                        [MT_TAKES_FILE] = "file",
                                        [MT_TAKES_RUN] = "run",
                                        [MT_TAKES_COMMAND] = "command",
                                        [MT_TAKES_DEVICE] = "text"};
    struct mt_text takes = {0};
    mt_text_add(&takes, "%s ", kinds[option->takes]);
    mt_completion_add_words(option, &takes);
    mt_completion_add_quoted(out, takes.data);
    mt_text_release(&takes);
}

static void add_takes_of(const struct mt_command *command, struct mt_text *out)
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
        add_takes(option, out);
        mt_text_add(out, " ;;\n");
    }
}

static void add_options_of(const struct mt_command *command, struct mt_text *out)
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

/* A function of a case per command. */
static void add_table(const char *name, const char *subject,
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
    mt_completion_add_commands(out);
    mt_text_add(out, "'\n}\n\n# _memtrace_options COMMAND: its options\n");
    add_table("_memtrace_options", "$1", add_options_of, out);
    mt_text_add(out, "# _memtrace_takes COMMAND OPTION|PLACE: what its value is, and words; nothing for a flag\n");
    add_table("_memtrace_takes", "$1:$2", add_takes_of, out);
    mt_text_add(out, "%s", functions);
}
