/* Completions for shells, made of the command table: what `memtrace help --completions` prints. */
#ifndef MT_CLI_COMPLETION_H
#define MT_CLI_COMPLETION_H

#include "cli/command.h"

/* Adds the script that a shell reads. None runs the program but to list the runs of a trace. */
void mt_completion_add_bash(struct mt_text *out);
void mt_completion_add_zsh(struct mt_text *out);
void mt_completion_add_fish(struct mt_text *out);

/* The numbers and names of a trace's runs, as a query that a shell asks; the first line of the answer is a title. */
#define MT_COMPLETION_RUNS "SELECT id AS run FROM run UNION ALL SELECT name FROM run WHERE name IS NOT NULL"

/* Adds the words that a value may be, or may be among others, with a space between them; nothing if there are none. */
void mt_completion_add_words(const struct mt_option *option, struct mt_text *out);

/* Adds the names of all commands, with a space between them. */
void mt_completion_add_commands(struct mt_text *out);

/* Adds `text` in single quotes, as a shell takes it that ends a quote to write one ('\''). */
void mt_completion_add_quoted(struct mt_text *out, const char *text);

#endif
