/* Options of a command line. Each command has a table of options. One parser reads them, and the help is generated from
 * the same table, so that they always agree.
 *
 * A command stores its options in its own struct; an entry of its table refers to a field by offset. */
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* The kind of an option's value, and the type of its field. */
typedef enum mt_option_kind {
    MT_OPTION_FLAG,    /* takes no value; bool */
    MT_OPTION_TEXT,    /* const char *, borrowed from the argument vector */
    MT_OPTION_INTEGER, /* int64_t in [low, high] */
    MT_OPTION_BYTES,   /* uint64_t: "52GiB" */
    MT_OPTION_PERCENT, /* double: "1%" is 1 */
    MT_OPTION_CHOICE,  /* int: the index in `choices`, which ends with NULL */
    MT_OPTION_LIST, /* struct mt_option_list: texts, borrowed as above; repeatable. If positional, the last entry: all
                     * remaining positional arguments */
    MT_OPTION_REST /* char *const *, positional, the last entry: this argument and all that follow, even if they look like
                     * options, ending with NULL like the argument vector */
} mt_option_kind;

/* The values of a repeatable option, in the order on the command line. */
enum { MT_MOST_LISTED = 1024 };
struct mt_option_list {
    size_t count;
    const char *items[MT_MOST_LISTED];
};

/* Which words a shell can suggest for a value, unless its kind determines them. */
typedef enum mt_option_takes {
    MT_TAKES_TEXT,    /* anything; for MT_OPTION_TEXT, `choices` are suggestions, if any */
    MT_TAKES_FILE,    /* a file's name, or one of the choices */
    MT_TAKES_RUN,     /* a run of the trace */
    MT_TAKES_COMMAND, /* a command of the program */
    MT_TAKES_DEVICE   /* a device, such as a simulated card */
} mt_option_takes;

enum { MT_MOST_OPTIONS = 64, MT_OPTION_TEXT_BYTES = 64 };

/* The texts of a generated option. */
struct mt_option_texts {
    char name[MT_OPTION_TEXT_BYTES], value[MT_OPTION_TEXT_BYTES];
};

/* Generates option `index` of a group, with its offset within the group's fields; false if there are no more. */
struct mt_option;
typedef bool (*mt_option_group)(size_t index, struct mt_option_texts *texts, struct mt_option *out);

/* One option ("--steps") or, if the name does not begin with a dash, one positional argument ("QUERY"). Positional
 * arguments are filled in the order of the table. */
struct mt_option {
    const char *name;
    const char *value; /* the placeholder for its value in the help; NULL for a flag */
    const char *help;
    mt_option_kind kind;
    size_t offset; /* of the field in the command's struct */
    int64_t low, high;
    const char *const *choices;
    mt_option_takes takes;
    const char *alias; /* a second, short name ("-o"); NULL: none */
    bool keeps_text;   /* the field is a const char * with the text itself, checked according to the kind */
    mt_status (*take)(const char *text, void *field); /* for a text, not NULL: stores it */
    mt_option_group group; /* not NULL: this entry stands for the options it generates, with fields from `offset` on */
};

/* An entry of a table, of an option whose value goes to a member of the command's struct:
 * MT_OPTION(TEXT, struct run_options, name, "--name", .value = "TEXT", .help = "the run's name"). */
#define MT_OPTION(option_kind, type, member, option_name, ...)                                                         \
    {                                                                                                                  \
        .kind = MT_OPTION_##option_kind, .offset = offsetof(type, member), .name = (option_name), __VA_ARGS__          \
    }

/* A table with groups expanded, for parsing and help. Ends with a NULL name. Entries borrow its texts; do not copy. */
struct mt_option_table {
    struct mt_option items[MT_MOST_OPTIONS + 1];
    struct mt_option_texts texts[MT_MOST_OPTIONS];
};
void mt_options_expand(const struct mt_option *options, struct mt_option_table *out);

/* True if the entry is a positional argument. */
bool mt_option_is_positional(const struct mt_option *option);

/* Parses `count` arguments into `fields`, which holds the defaults. `options` ends with a NULL name. Fails with
 * MT_USAGE for an unknown option, a missing or invalid value, or a superfluous argument; the text lists the valid ones
 * and the most similar one. */
mt_status mt_options_parse(const struct mt_option *options, int count, char **arguments, void *fields);

/* Fails with MT_USAGE if `text` is not a valid value of the option, which the text names. */
mt_status mt_option_check(const struct mt_option *option, const char *text);

/* Adds the list of options, aligned, with their choices, as wide as sentences on stdout. */
void mt_options_describe(const struct mt_option *options, struct mt_text *out);
