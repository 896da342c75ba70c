/* The manual, made of the command table. `memtrace help --man` prints it, and `man memtrace-run` shows it. */
#ifndef MT_CLI_MAN_PAGE_H
#define MT_CLI_MAN_PAGE_H

#include "cli/command.h"

/* Adds the page of a command, memtrace-NAME(1), or of the program if `command` is NULL, in the man macros of roff. */
void mt_man_page_add(const struct mt_command *command, struct mt_text *out);

#endif
