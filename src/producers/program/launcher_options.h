/* Options of launchers, as tables.
 *
 *   {"n ntasks", 1, mt_take_ranks}   -n 8, -n8, --ntasks 8, --ntasks=8
 *
 * Threads: any. */
#pragma once

#include "base/status.h"
#include "producers/program/launch.h"

/* A given option. Texts are borrowed. */
struct mt_given_option {
    const char *word;      /* as typed, "-n=4" or "-n" */
    const char *values[2]; /* NULL: none was given */
};

/* A row of a table. */
struct mt_launcher_option {
    const char *names; /* without dashes, separated by spaces; "a-b" is also "a_b" */
    int values;        /* the number of words after it: 0 to 2. A value after "=" is the only one */
    mt_status (*take)(const struct mt_given_option *given,
                      struct mt_launch *launch); /* NULL: it does not affect any rank's memory */
};

/* Reads options up to the script, which it sets. The table ends with a row without names. */
mt_status mt_launcher_options_read(const struct mt_launcher_option *options, char *const *words,
                                   struct mt_launch *launch);

/* Fails with MT_USAGE: the option as given, why it is not understood, and what to do instead. */
mt_status mt_launcher_option_refuse(const struct mt_given_option *given, const struct mt_launch *launch,
                                    const char *why);

/* Rows' functions for counts. "1:4", minimum and maximum, is 4. */
mt_status mt_take_ranks(const struct mt_given_option *given, struct mt_launch *launch);
mt_status mt_take_nodes(const struct mt_given_option *given, struct mt_launch *launch);
mt_status mt_take_per_node(const struct mt_given_option *given, struct mt_launch *launch);

/* Rows' functions for the start of the script. */
mt_status mt_take_module(const struct mt_given_option *given, struct mt_launch *launch);
mt_status mt_take_plain(const struct mt_given_option *given, struct mt_launch *launch);
mt_status mt_take_no_local_rank(const struct mt_given_option *given, struct mt_launch *launch);

/* A list of hosts: a file of lines "NAME slots=N" or "NAME:N", or the text "NAME:N,NAME:N". Fails with MT_USAGE if the
 * file can't be read, or if hosts have different numbers. */
mt_status mt_take_host_file(const struct mt_given_option *given, struct mt_launch *launch);
mt_status mt_take_hosts(const struct mt_given_option *given, struct mt_launch *launch);

/* Reads a number from 1 to MT_MOST_RANKS. False for another text. */
bool mt_launcher_count_read(const char *text, int64_t *out);

/* Adds "NAME=VALUE", whose name has `name_bytes`. Copies the texts. */
void mt_launch_add_variable(struct mt_launch *launch, const char *name, size_t name_bytes, const char *value);
