/* Pages that `memtrace help` makes of the tables of commands, options and answers: for man, for shells, and docs/json.md. */
#pragma once

#include "cli/command.h"

/* Adds the page of a command, memtrace-NAME(1), or of the program if `command` is NULL, in the man macros of roff. */
void mt_man_page_add(const struct mt_command *command, struct mt_text *out);

/* Adds the fields of a command's answer, or an introduction and all answers if `command` is NULL, in Markdown. */
void mt_json_page_add(const struct mt_command *command, struct mt_text *out);

/* Adds the script that a shell reads. It runs the program only to list the runs of a trace. */
void mt_completion_add_bash(struct mt_text *out);
void mt_completion_add_zsh(struct mt_text *out);
void mt_completion_add_fish(struct mt_text *out);
