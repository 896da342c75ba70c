/* memtrace help: lists the commands, or explains one; also generates man pages, shell completions and docs/json.md. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/program/help_pages.h"
#include "operators/operator_plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A shell that completions are made for. */
enum { NO_SHELL = -1 };
static const char *const shell_names[] = {"bash", "zsh", "fish", NULL};
static void (*const add_completion[])(struct mt_text *out) = {mt_completion_add_bash, mt_completion_add_zsh,
                                                              mt_completion_add_fish};

struct help_options {
    bool help, json, man, json_fields, operators;
    int shell;
    const char *command; /* NULL: all */
};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct help_options, command, "COMMAND", .takes = MT_TAKES_COMMAND,
              .help = "the command to explain"),
    MT_OPTION(FLAG, struct help_options, man, "--man",
              .help = "print the manual page of the command or of the program"),
    MT_OPTION(CHOICE, struct help_options, shell, "--completions", .value = "SHELL", .choices = shell_names,
              .help = "print the shell's completions of commands, options and values"),
    MT_OPTION(FLAG, struct help_options, json_fields, "--json-fields",
              .help = "print the fields of --json, of the command or of all commands, in Markdown"),
    MT_OPTION(FLAG, struct help_options, operators, "--operators",
              .help = "print the operators of PyTorch with known scratch memory, in Markdown"),
    MT_OPTION_JSON(struct help_options),
    MT_OPTION_HELP(struct help_options),
    MT_OPTIONS_END,
};

/* Prints the collected sentences, and clears them. */
static void end_paragraph(struct mt_text *sentences)
{
    if (sentences->length > 0)
        mt_print_wrapped(mt_text_get(sentences), 0);
    mt_text_release(sentences);
}

/* Prints sentences wrapped to the terminal's width, and indented lines unchanged. */
static void print_details(const char *details)
{
    struct mt_text sentences = {0};
    for (const char *line = details; *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        if (bytes == 0 || line[0] == ' ') {
            end_paragraph(&sentences);
            printf("%.*s\n", (int)bytes, line);
        } else {
            mt_text_add(&sentences, "%s%.*s", sentences.length > 0 ? " " : "", (int)bytes, line);
        }
        line += bytes + (line[bytes] == '\n');
    }
    end_paragraph(&sentences);
}

void mt_help_print(const struct mt_command *command)
{
    struct mt_text list = {0};
    mt_options_describe(command->options, &list);
    mt_print_wrapped(command->summary, 0);
    mt_say("\nusage: memtrace %s%s%s", command->name, command->usage[0] != '\0' ? " " : "", command->usage);
    if (command->details != NULL) {
        putchar('\n');
        print_details(command->details);
    }
    printf("\nOptions:\n%s\nExamples:\n%s", list.data, command->examples);
    mt_text_release(&list);
}

/* Prints "Exit codes: 0 done; 1 failed; …". */
static void print_exit_codes(void)
{
    struct mt_text text = {0};
    mt_text_add(&text, "Exit codes:");
#define X(name, code, words) mt_text_add(&text, "%s %d %s", (code) > 0 ? ";" : "", code, words);
    MT_STATUSES(X)
#undef X
    mt_text_add(&text, ".");
    mt_print_wrapped(mt_text_get(&text), 0);
    mt_text_release(&text);
}

void mt_help_print_all(void)
{
    enum { SUMMARY_COLUMN = 14 };
    mt_print_wrapped(MT_PROGRAM_SUMMARY, 0);
    puts("\nusage: memtrace COMMAND [OPTIONS]\n\nCommands:");
    for (const struct mt_command *const *command = mt_commands; *command != NULL; command++) {
        printf("  %-12s", (*command)->name);
        mt_print_wrapped((*command)->summary, SUMMARY_COLUMN);
    }
    putchar('\n');
    print_exit_codes();
    mt_print_wrapped("On a terminal, NO_COLOR turns styles off, and COLUMNS sets the width of tables.", 0);
    puts("\nExamples:");
    fputs(MT_PROGRAM_EXAMPLES, stdout);
}

/* An option, for the answer. */
struct option_row {
    const char *name, *value, *help;
    json_t *choices;
};

static const struct mt_field option_fields[] = {
    MT_TEXT(struct option_row, name, "name", NULL, "without a dash: an argument by its place"),
    MT_TEXT(struct option_row, value, "value", NULL, "null for a flag"),
    MT_TEXT(struct option_row, help, "help", NULL, NULL),
    MT_VALUE(struct option_row, choices, "choices", NULL,
             "texts: the values that may be or, where others may too, the usual ones"),
    MT_FIELDS_END,
};
static const struct mt_row_type option_type = MT_ROW_TYPE(struct option_row, option_fields);

struct command_row {
    const char *name, *summary;
    struct option_row options[MT_MOST_OPTIONS], *first;
    size_t option_count;
    struct mt_option_table table; /* owns the options' texts */
};

static const struct mt_field command_fields[] = {
    MT_TEXT(struct command_row, name, "name", NULL, NULL),
    MT_TEXT(struct command_row, summary, "summary", NULL, NULL),
    MT_ROWS(struct command_row, first, option_count, "options", &option_type, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type command_type = MT_ROW_TYPE(struct command_row, command_fields);

struct help_answer {
    struct command_row *rows;
    size_t count;
};
static const struct mt_field answer_fields[] = {
    MT_ROWS(struct help_answer, rows, count, "rows", &command_type, "every command, or the one that was named"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct help_answer, answer_fields);

static void fill_command(const struct mt_command *command, struct command_row *out)
{
    out->name = command->name;
    out->summary = command->summary;
    out->first = out->options;
    mt_options_expand(command->options, &out->table);
    for (const struct mt_option *option = out->table.items; option->name != NULL; option++) {
        json_t *choices = json_array();
        for (int i = 0; option->choices != NULL && option->choices[i] != NULL; i++)
            json_array_append_new(choices, json_string(option->choices[i]));
        assert(out->option_count < MT_MOST_OPTIONS);
        out->options[out->option_count++] = (struct option_row){
            option->name, option->kind == MT_OPTION_FLAG ? NULL : option->value, option->help, choices};
    }
}

/* Prints one command, or all. */
static void print_json(const struct mt_command *command)
{
    const struct mt_command *const one[] = {command, NULL}, *const *listed = command != NULL ? one : mt_commands;
    struct help_answer answer = {0};
    while (listed[answer.count] != NULL)
        answer.count++;
    answer.rows = mt_host_alloc(answer.count * sizeof *answer.rows);
    for (size_t i = 0; i < answer.count; i++)
        fill_command(listed[i], &answer.rows[i]);
    mt_answer_print_json("help", &answer_type, &answer);
    for (size_t i = 0; i < answer.count; i++)
        for (size_t option = 0; option < answer.rows[i].option_count; option++)
            json_decref(answer.rows[i].options[option].choices);
    free(answer.rows);
}

static void print_text(struct mt_text *text)
{
    fputs(mt_text_get(text), stdout);
    mt_text_release(text);
}

static void print_page(void (*add)(const struct mt_command *command, struct mt_text *out),
                       const struct mt_command *command)
{
    struct mt_text page = {0};
    add(command, &page);
    print_text(&page);
}

static void print_operators(void)
{
    struct mt_text page = {0};
    mt_operator_page_add(&page);
    print_text(&page);
}

static void print_completion(int shell)
{
    struct mt_text script = {0};
    assert(shell >= 0 && shell_names[shell] != NULL);
    add_completion[shell](&script);
    print_text(&script);
}

static mt_status check_options(const struct help_options *help)
{
    if (help->man + help->json + help->json_fields + help->operators + (help->shell != NO_SHELL) > 1)
        return mt_fail(MT_USAGE, "--man, --completions, --json, --json-fields and --operators exclude each other");
    if (help->shell != NO_SHELL && help->command != NULL)
        return mt_fail(MT_USAGE, "completions are of all commands at once: memtrace help --completions %s",
                       shell_names[help->shell]);
    return MT_OK;
}

static mt_status run_help(const void *given)
{
    const struct help_options *help = given;
    const struct mt_command *command = NULL;
    mt_status status = check_options(help);
    if (status == MT_OK && help->command != NULL)
        status = mt_command_find(help->command, &command);
    if (status != MT_OK)
        return status;
    if (help->shell != NO_SHELL)
        print_completion(help->shell);
    else if (help->man)
        print_page(mt_man_page_add, command);
    else if (help->json_fields)
        print_page(mt_json_page_add, command);
    else if (help->operators)
        print_operators();
    else if (help->json)
        print_json(command);
    else if (command != NULL)
        mt_help_print(command);
    else
        mt_help_print_all();
    return MT_OK;
}

const struct mt_command mt_command_help = {
    .name = "help",
    .summary = "Lists the commands, or explains one.",
    .usage = "[COMMAND] [OPTIONS]",
    .details =
        "An installed memtrace has its manual pages and completions where man and the shells look for them. To get\n"
        "completions for one that is built but not installed:\n"
        "\n"
        "  source <(memtrace help --completions bash)\n"
        "  memtrace help --completions zsh >~/.zfunc/_memtrace    # in a folder of $fpath\n"
        "  memtrace help --completions fish | source\n",
    .examples = "  memtrace help\n"
                "  memtrace help run\n"
                "  memtrace help peak --json-fields\n"
                "  memtrace help run --man >memtrace-run.1\n"
                "  memtrace help --completions bash >memtrace.bash\n",
    .options = options,
    MT_OPTIONS_OF(struct help_options, .shell = NO_SHELL),
    .answer = &answer_type,
    .run = run_help,
};
