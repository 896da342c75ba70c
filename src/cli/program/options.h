/* Options of a command line. Each command has a table of them; one parser reads all, and the help is printed from the same
 * table, so that the three can't differ.
 *
 * A command keeps its options in a struct of its own; an entry of its table names a field of it by offset. */
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* The kind of an option's value, and the type of the field that it goes to. */
typedef enum mt_option_kind {
    MT_OPTION_FLAG,    /* takes no value; bool */
    MT_OPTION_TEXT,    /* const char *, borrowed from the argument vector */
    MT_OPTION_INTEGER, /* int64_t in [low, high] */
    MT_OPTION_BYTES,   /* uint64_t: "52GiB" */
    MT_OPTION_PERCENT, /* double: "1%" is 1 */
    MT_OPTION_CHOICE,  /* int: the index in `choices`, which ends with NULL */
    MT_OPTION_LIST, /* struct mt_option_list: texts, borrowed as above; the option may be given again and again. Positional,
                        * last: all positional arguments that follow */
    MT_OPTION_REST /* char *const *, positional, last: this argument and all that follow, whatever they look like,
                        * ending with NULL as the argument vector does */
} mt_option_kind;

/* The values of a repeatable option, in the order given. */
enum { MT_MOST_LISTED = 1024 };
struct mt_option_list {
    size_t count;
    const char *items[MT_MOST_LISTED];
};

/* The words that a shell can complete a value with, where its kind does not say it. */
typedef enum mt_option_takes {
    MT_TAKES_TEXT,    /* anything; of MT_OPTION_TEXT, `choices` are suggestions if there are some */
    MT_TAKES_FILE,    /* a file's name, or one of those */
    MT_TAKES_RUN,     /* a run of the trace */
    MT_TAKES_COMMAND, /* a command of the program */
    MT_TAKES_DEVICE   /* a device, such as a simulated card */
} mt_option_takes;

enum { MT_MOST_OPTIONS = 64, MT_OPTION_TEXT_BYTES = 64 };

/* The texts of an option that a group makes. */
struct mt_option_texts {
    char name[MT_OPTION_TEXT_BYTES], value[MT_OPTION_TEXT_BYTES];
};

/* Makes option `index` of a group, with its offset within the group's fields; false if there are no more. */
struct mt_option;
typedef bool (*mt_option_group)(size_t index, struct mt_option_texts *texts, struct mt_option *out);

/* One option ("--steps") or, if the name does not begin with a dash, one positional argument ("QUERY"). Positional
 * ones are filled in the order of the table. */
struct mt_option {
    const char *name;
    const char *value; /* the help's word for its value; NULL for a flag */
    const char *help;
    mt_option_kind kind;
    size_t offset; /* of the field in the command's struct */
    int64_t low, high;
    const char *const *choices;
    mt_option_takes takes;
    const char *alias; /* a second, short name ("-o"); NULL: none */
    bool keeps_text;   /* the field is a const char *: the text itself, checked as the kind says */
    mt_status (*take)(const char *text, void *field); /* of a text, not NULL: stores it where it belongs */
    mt_option_group group; /* not NULL: this entry stands for all that it makes, with fields from `offset` on */
};

/* An entry of a table, of an option whose value goes to a member of the command's struct:
 * MT_OPTION(TEXT, struct run_options, name, "--name", .value = "TEXT", .help = "the run's name"). */
#define MT_OPTION(option_kind, type, member, option_name, ...)                                                         \
    {                                                                                                                  \
        .kind = MT_OPTION_##option_kind, .offset = offsetof(type, member), .name = (option_name), __VA_ARGS__          \
    }

/* A table without groups, as it is parsed and described. Ends with a NULL name. Entries borrow its texts, so that it is
 * not to be copied. */
struct mt_option_table {
    struct mt_option items[MT_MOST_OPTIONS + 1];
    struct mt_option_texts texts[MT_MOST_OPTIONS];
};
void mt_options_expand(const struct mt_option *options, struct mt_option_table *out);

/* True if the entry is an argument without a name. */
bool mt_option_is_positional(const struct mt_option *option);

/* Reads `count` arguments into `fields`, which holds the defaults. `options` ends with a NULL name. An unknown option,
 * a missing or wrong value or a superfluous argument is MT_USAGE with the list of what there is and the nearest. */
mt_status mt_options_parse(const struct mt_option *options, int count, char **arguments, void *fields);

/* Fails with MT_USAGE, naming the option, if `text` is no value of it. */
mt_status mt_option_check(const struct mt_option *option, const char *text);

/* Adds the list of options, aligned, with choices where there are some, as wide as sentences on stdout may be. */
void mt_options_describe(const struct mt_option *options, struct mt_text *out);
