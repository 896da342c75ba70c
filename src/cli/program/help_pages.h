/* Pages that `memtrace help` generates from the tables of commands, options and answers: man pages, shell completions,
 * and docs/json.md. */
#pragma once

#include "cli/command.h"

/* Adds the man page of a command, memtrace-NAME(1), or of the program if `command` is NULL, in roff's man macros. */
void mt_man_page_add(const struct mt_command *command, struct mt_text *out);

/* Adds the fields of a command's answer in Markdown, or an introduction and all answers if `command` is NULL. */
void mt_json_page_add(const struct mt_command *command, struct mt_text *out);

/* Adds the completion script for a shell. It runs the program only to list the runs of a trace. */
void mt_completion_add_bash(struct mt_text *out);
void mt_completion_add_zsh(struct mt_text *out);
void mt_completion_add_fish(struct mt_text *out);
