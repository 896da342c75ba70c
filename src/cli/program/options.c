#include "cli/program/options.h"

#include "cli/output/output.h"
#include "cli/output/run_word.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* The state of the parser. */
struct parser {
    const struct mt_option *options;
    int count, next; /* of the arguments */
    char **arguments;
    char *fields;
    bool only_positional; /* "--" was seen */
    int positional_count;
};

bool mt_option_is_positional(const struct mt_option *option)
{
    return option->name[0] != '-';
}

/* Appends the options that an entry stands for to a table of `count`, and returns the new count. */
static size_t expand(const struct mt_option *entry, size_t count, struct mt_option_table *out)
{
    struct mt_option made;
    for (size_t i = 0; entry->group(i, &out->texts[count], &made); i++) {
        made.offset += entry->offset;
        out->items[count++] = made;
        assert(count < MT_MOST_OPTIONS);
    }
    return count;
}

void mt_options_expand(const struct mt_option *options, struct mt_option_table *out)
{
    size_t count = 0;
    for (const struct mt_option *option = options; option->name != NULL; option++) {
        assert(count < MT_MOST_OPTIONS);
        if (option->group != NULL)
            count = expand(option, count, out);
        else
            out->items[count++] = *option;
    }
    out->items[count] = (struct mt_option){.name = NULL};
}

static size_t choice_count(const char *const *choices)
{
    size_t count = 0;
    while (choices[count] != NULL)
        count++;
    return count;
}

static mt_status parse_choice(const struct mt_option *option, const char *text, int *out)
{
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *out = i;
            return MT_OK;
        }
    }
    return mt_fail_unknown("value", text, option->choices, choice_count(option->choices));
}

static mt_status add_to_list(const struct mt_option *option, const char *text, struct mt_option_list *list)
{
    if (list->count == MT_MOST_LISTED)
        return mt_fail(MT_USAGE, "%s can be given %d times at most", option->name, MT_MOST_LISTED);
    list->items[list->count++] = text;
    return MT_OK;
}

/* Adds the option to the error of a value that was parsed elsewhere. */
static mt_status name_option(const struct mt_option *option, mt_status status)
{
    return status == MT_OK ? status : mt_fail_context(status, "%s", option->name);
}

/* Parses `text` into the field of an option with one value. */
static mt_status read_value(const struct mt_option *option, const char *text, void *field)
{
    switch (option->kind) {
    case MT_OPTION_TEXT:
        if (option->take != NULL)
            return option->take(text, field);
        *(const char **)field = text;
        return MT_OK;
    case MT_OPTION_INTEGER:
        return mt_parse_integer(option->name, text, option->low, option->high, field);
    case MT_OPTION_BYTES:
        return name_option(option, mt_parse_size(text, field));
    case MT_OPTION_PERCENT:
        return name_option(option, mt_parse_percent(text, field));
    case MT_OPTION_CHOICE:
        return name_option(option, parse_choice(option, text, field));
    case MT_OPTION_LIST:
    case MT_OPTION_FLAG:
    case MT_OPTION_REST:
        break;
    }
    assert(!"an option that takes one value");
    return MT_OK;
}

mt_status mt_option_check(const struct mt_option *option, const char *text)
{
    union {
        const char *text;
        int64_t integer;
        uint64_t bytes;
        double percent;
        int choice;
    } ignored;
    return read_value(option, text, &ignored);
}

static mt_status store_value(struct parser *parser, const struct mt_option *option, const char *text)
{
    void *field = parser->fields + option->offset;
    if (option->kind == MT_OPTION_FLAG) {
        *(bool *)field = true;
        return MT_OK;
    }
    if (option->kind == MT_OPTION_REST) {
        *(char *const **)field = parser->arguments + parser->next - 1;
        parser->next = parser->count;
        return MT_OK;
    }
    if (option->kind == MT_OPTION_LIST)
        return add_to_list(option, text, field);
    if (!option->keeps_text)
        return read_value(option, text, field);
    *(const char **)field = text;
    return mt_option_check(option, text);
}

/* Fails for an unknown option; `argument` may have a value after the name. */
static mt_status fail_unknown_option(const struct mt_option *options, const char *argument)
{
    struct mt_text name = {0};
    const char *names[MT_MOST_OPTIONS];
    size_t count = 0;
    for (const struct mt_option *option = options; option->name != NULL; option++)
        if (!mt_option_is_positional(option))
            names[count++] = option->name;
    mt_text_add(&name, "%.*s", (int)strcspn(argument, "="), argument);
    mt_status status = mt_fail_unknown("option", mt_text_get(&name), names, count);
    mt_text_release(&name);
    return mt_fail_hint(status, "--help explains them");
}

/* True if `own`, which may be NULL, is equal to the name. */
static bool is_name(const char *own, const char *name, size_t length)
{
    return own != NULL && strlen(own) == length && memcmp(own, name, length) == 0;
}

static const struct mt_option *find_option(const struct mt_option *options, const char *name, size_t length)
{
    for (const struct mt_option *option = options; option->name != NULL; option++)
        if (!mt_option_is_positional(option) &&
            (is_name(option->name, name, length) || is_name(option->alias, name, length)))
            return option;
    return NULL;
}

/* Parses "--name value", "--name=value" or "--flag". */
static mt_status parse_option(struct parser *parser, const char *argument)
{
    const char *equals = strchr(argument, '=');
    size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    const struct mt_option *option = find_option(parser->options, argument, length);
    if (option == NULL)
        return fail_unknown_option(parser->options, argument);
    if (option->kind == MT_OPTION_FLAG)
        return equals == NULL ? store_value(parser, option, NULL)
                              : mt_fail(MT_USAGE, "%s takes no value", option->name);
    if (equals != NULL)
        return store_value(parser, option, equals + 1);
    if (parser->next == parser->count)
        return mt_fail(MT_USAGE, "%s needs a value: %s %s", option->name, option->name, option->value);
    return store_value(parser, option, parser->arguments[parser->next++]);
}

static bool has_option(const struct parser *parser, const char *name)
{
    return find_option(parser->options, name, strlen(name)) != NULL;
}

/* If the command has an option for a trace or run, adds it to the failure of an argument. */
static mt_status hint_option(const struct parser *parser, const char *argument, mt_status status)
{
    if (status == MT_OK || !has_option(parser, mt_run_word_option(argument)))
        return status;
    return mt_run_word_hint(argument, status);
}

static mt_status parse_positional(struct parser *parser, const char *argument)
{
    int place = 0;
    for (const struct mt_option *option = parser->options; option->name != NULL; option++) {
        if (!mt_option_is_positional(option))
            continue;
        if (place++ == parser->positional_count) {
            parser->positional_count += option->kind != MT_OPTION_LIST;
            return hint_option(parser, argument, store_value(parser, option, argument));
        }
    }
    return hint_option(parser, argument, mt_fail(MT_USAGE, "\"%s\" is one argument too many", argument));
}

mt_status mt_options_parse(const struct mt_option *options, int count, char **arguments, void *fields)
{
    struct mt_option_table table;
    struct parser parser = {.options = table.items, .count = count, .arguments = arguments, .fields = fields};
    mt_options_expand(options, &table);
    mt_status status = MT_OK;
    while (status == MT_OK && parser.next < parser.count) {
        const char *argument = parser.arguments[parser.next++];
        if (!parser.only_positional && strcmp(argument, "--") == 0) {
            parser.only_positional = true;
            continue;
        }
        bool is_option = !parser.only_positional && argument[0] == '-' && argument[1] != '\0';
        status = is_option ? parse_option(&parser, argument) : parse_positional(&parser, argument);
    }
    return status;
}

/* Adds "--mode infer|fwd", "--steps N" or "-o, --output FILE". */
static void describe_name(const struct mt_option *option, struct mt_text *out)
{
    if (option->alias != NULL)
        mt_text_add(out, "%s, ", option->alias);
    mt_text_add(out, "%s", option->name);
    if (option->kind == MT_OPTION_CHOICE)
        for (int i = 0; option->choices[i] != NULL; i++)
            mt_text_add(out, "%s%s", i == 0 ? " " : "|", option->choices[i]);
    else if (option->value != NULL && !mt_option_is_positional(option))
        mt_text_add(out, " %s", option->value);
}

/* The columns of an option's name and of its help, which is below the name if there is no room on the line. */
enum { NAME_COLUMN = 2, HELP_COLUMN = 34, NARROW_HELP_COLUMN = 6, LEAST_HELP_WIDTH = 30 };

void mt_options_describe(const struct mt_option *options, struct mt_text *out)
{
    size_t width = (size_t)mt_output_width();
    int column = width < HELP_COLUMN + LEAST_HELP_WIDTH ? NARROW_HELP_COLUMN : HELP_COLUMN;
    struct mt_option_table table;
    mt_options_expand(options, &table);
    for (const struct mt_option *option = table.items; option->name != NULL; option++) {
        struct mt_text name = {0};
        describe_name(option, &name);
        mt_text_add(out, "%*s", NAME_COLUMN, "");
        if (NAME_COLUMN + (int)name.length + 2 <= column) {
            mt_text_add(out, "%-*s", column - NAME_COLUMN, name.data);
        } else {
            mt_text_add_wrapped(out, name.data, NAME_COLUMN, width);
            mt_text_add(out, "%*s", column, "");
        }
        mt_text_add_wrapped(out, option->help, (size_t)column, width);
        mt_text_release(&name);
    }
}
