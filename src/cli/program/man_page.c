#include "cli/program/help_pages.h"

#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* Returns the code point of a character of `length` bytes. */
static unsigned code_point(const char *text, int length)
{
    assert(length >= 2 && length <= 4);
    unsigned code = (unsigned char)text[0] & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3Fu);
    return code;
}

/* Adds an ASCII character. roff would print some as typographic characters, which can't be pasted into a shell. */
static void add_ascii(struct mt_text *out, char character)
{
    static const char special[] = "\\-'`^~";
    static const char *const names[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    const char *found = strchr(special, character);
    if (found != NULL)
        mt_text_add(out, "%s", names[found - special]);
    else
        mt_text_add(out, "%c", character);
}

/* Adds text that roff shows literally. */
static void add_escaped(struct mt_text *out, const char *text)
{
    while (*text != '\0') {
        int length = mt_utf8_length(text);
        if (length > 1)
            mt_text_add(out, "\\[u%04X]", code_point(text, length));
        else
            add_ascii(out, *text);
        text += length > 0 ? length : 1;
    }
}

/* Adds a line of text. A dot at its beginning is escaped, since it would be a roff request. */
static void add_line(struct mt_text *out, const char *line, size_t length)
{
    struct mt_text copy = {0};
    mt_text_add(&copy, "%.*s", (int)length, line);
    if (copy.length > 0 && copy.data[0] == '.')
        mt_text_add(out, "\\&");
    add_escaped(out, mt_text_get(&copy));
    mt_text_add(out, "\n");
    mt_text_release(&copy);
}

static bool is_indented(const char *line)
{
    return line[0] == ' ' && line[1] == ' ';
}

/* Adds the paragraphs of a help text. Indented lines are not filled. */
static void add_paragraphs(struct mt_text *out, const char *text)
{
    bool verbatim = false;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        if (is_indented(text) != verbatim && length > 0) {
            verbatim = !verbatim;
            mt_text_add(out, verbatim ? ".nf\n" : ".fi\n");
        }
        if (length == 0)
            mt_text_add(out, ".PP\n");
        else
            add_line(out, text, length);
        text += length + (text[length] == '\n');
    }
    if (verbatim)
        mt_text_add(out, ".fi\n");
}

/* Adds "memtrace-run", or "memtrace" for the program. */
static void add_page_name(struct mt_text *out, const struct mt_command *command)
{
    mt_text_add(out, "memtrace");
    if (command != NULL) {
        mt_text_add(out, "\\-");
        add_escaped(out, command->name);
    }
}

static void add_title(struct mt_text *out, const struct mt_command *command)
{
    struct mt_text name = {0};
    add_page_name(&name, command);
    for (size_t i = 0; i < name.length; i++)
        name.data[i] = (char)toupper((unsigned char)name.data[i]);
    mt_text_add(out, ".TH \"%s\" \"1\" \"\" \"memtrace " MT_VERSION "\" \"User Commands\"\n", name.data);
    mt_text_release(&name);
}

/* Adds a sentence without its capital letter and full stop, after a dash. */
static void add_name(struct mt_text *out, const struct mt_command *command, const char *sentence)
{
    struct mt_text line = {0};
    mt_text_add(&line, "%c%s", tolower((unsigned char)sentence[0]), sentence + 1);
    if (line.data[line.length - 1] == '.')
        line.data[--line.length] = '\0';
    mt_text_add(out, ".SH NAME\n");
    add_page_name(out, command);
    mt_text_add(out, " \\- ");
    add_escaped(out, line.data);
    mt_text_add(out, "\n");
    mt_text_release(&line);
}

static void add_synopsis(struct mt_text *out, const char *command, const char *usage)
{
    mt_text_add(out, ".SH SYNOPSIS\n.B memtrace");
    if (command[0] != '\0')
        mt_text_add(out, " ");
    add_escaped(out, command);
    mt_text_add(out, "\n");
    if (usage[0] != '\0')
        add_line(out, usage, strlen(usage));
}

static void add_bold(struct mt_text *out, const char *word, const char *after)
{
    mt_text_add(out, "\\fB");
    add_escaped(out, word);
    mt_text_add(out, "\\fR%s", after);
}

static void add_option(struct mt_text *out, const struct mt_option *option)
{
    mt_text_add(out, ".TP\n");
    if (option->alias != NULL)
        add_bold(out, option->alias, ", ");
    add_bold(out, option->name, "");
    if (option->kind == MT_OPTION_CHOICE) {
        mt_text_add(out, " ");
        for (int i = 0; option->choices[i] != NULL; i++)
            add_bold(out, option->choices[i], option->choices[i + 1] != NULL ? "|" : "");
    } else if (option->value != NULL && !mt_option_is_positional(option)) {
        mt_text_add(out, " \\fI");
        add_escaped(out, option->value);
        mt_text_add(out, "\\fR");
    }
    mt_text_add(out, "\n");
    add_line(out, option->help, strlen(option->help));
}

static void add_options(struct mt_text *out, const struct mt_command *command)
{
    mt_text_add(out, ".SH OPTIONS\n");
    struct mt_option_table table;
    mt_options_expand(command->options, &table);
    for (const struct mt_option *option = table.items; option->name != NULL; option++)
        add_option(out, option);
}

static void add_examples(struct mt_text *out, const char *examples)
{
    mt_text_add(out, ".SH EXAMPLES\n");
    add_paragraphs(out, examples);
}

static void add_exit_status(struct mt_text *out, const struct mt_command *command)
{
    static const struct {
        int code;
        const char *text;
    } statuses[] = {
#define X(name, code, text) {code, text},
        MT_STATUSES(X)
#undef X
    };
    mt_text_add(out, ".SH \"EXIT STATUS\"\n");
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        mt_text_add(out, ".TP\n.B %d\n", statuses[i].code);
        const char *text = statuses[i].text;
        if (statuses[i].code == MT_FAILED && command != NULL && command->failed_means != NULL)
            text = command->failed_means;
        add_line(out, text, strlen(text));
    }
}

static void add_files(struct mt_text *out)
{
    mt_text_add(out, ".SH FILES\n.TP\n.I " MT_DEFAULT_TRACE "\nThe trace, unless another one is named: an SQLite"
                     " database of any number of runs.\n.TP\n.I " MT_DEFAULT_TRACE
                     "\\-ring\nBeside a trace while a run is written to it, and after a crash until the trace is"
                     " opened next.\n");
}

static void add_environment(struct mt_text *out)
{
    mt_text_add(out, ".SH ENVIRONMENT\n"
                     ".TP\n.B COLUMNS\nHow many columns the terminal is taken to have. Nothing is shortened where the"
                     " output is no terminal.\n"
                     ".TP\n.B NO_COLOR\nIf it is there and not empty, nothing is printed in bold or colour.\n");
}

static void add_see_also(struct mt_text *out, const struct mt_command *self)
{
    mt_text_add(out, ".SH \"SEE ALSO\"\n");
    if (self != NULL)
        mt_text_add(out, ".BR memtrace (1),\n");
    for (const struct mt_command *const *command = mt_commands; *command != NULL; command++) {
        if (*command == self)
            continue;
        bool last = command[1] == NULL || (command[1] == self && command[2] == NULL);
        mt_text_add(out, ".BR ");
        add_page_name(out, *command);
        mt_text_add(out, " (1)%s\n", last ? "" : ",");
    }
}

static void add_commands(struct mt_text *out)
{
    mt_text_add(out, ".SH COMMANDS\n");
    for (const struct mt_command *const *command = mt_commands; *command != NULL; command++) {
        mt_text_add(out, ".TP\n.B ");
        add_escaped(out, (*command)->name);
        mt_text_add(out, "\n");
        add_line(out, (*command)->summary, strlen((*command)->summary));
    }
}

static bool asks_a_trace(const struct mt_command *command)
{
    for (const struct mt_option *option = command->options; option->name != NULL; option++)
        if (strcmp(option->name, "--trace") == 0)
            return true;
    return false;
}

static void add_program_page(struct mt_text *out)
{
    add_name(out, NULL, MT_PROGRAM_SUMMARY);
    add_synopsis(out, "", "COMMAND [OPTIONS]");
    mt_text_add(out, ".SH DESCRIPTION\n");
    add_line(out, MT_PROGRAM_SUMMARY, strlen(MT_PROGRAM_SUMMARY));
    mt_text_add(out, "Each command has a page of its own, and answers to\n.BR \\-\\-help .\n");
    add_commands(out);
    add_examples(out, MT_PROGRAM_EXAMPLES);
    add_exit_status(out, NULL);
    add_files(out);
    add_environment(out);
}

static void add_command_page(const struct mt_command *command, struct mt_text *out)
{
    add_name(out, command, command->summary);
    add_synopsis(out, command->name, command->usage);
    mt_text_add(out, ".SH DESCRIPTION\n");
    add_line(out, command->summary, strlen(command->summary));
    if (command->details != NULL) {
        mt_text_add(out, ".PP\n");
        add_paragraphs(out, command->details);
    }
    add_options(out, command);
    add_examples(out, command->examples);
    add_exit_status(out, command);
    if (asks_a_trace(command))
        add_files(out);
    add_environment(out);
}

void mt_man_page_add(const struct mt_command *command, struct mt_text *out)
{
    add_title(out, command);
    if (command == NULL)
        add_program_page(out);
    else
        add_command_page(command, out);
    add_see_also(out, command);
}
