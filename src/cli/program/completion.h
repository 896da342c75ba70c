/* Completions for shells, made of the command table. `memtrace help --completions` prints them. */
#ifndef MT_CLI_COMPLETION_H
#define MT_CLI_COMPLETION_H

#include "cli/command.h"

/* Adds the script that a shell reads. None runs the program but to list the runs of a trace. */
void mt_completion_add_bash(struct mt_text *out);
void mt_completion_add_zsh(struct mt_text *out);
void mt_completion_add_fish(struct mt_text *out);

#endif
