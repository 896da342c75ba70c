/* The fields of every answer in JSON, made of the command table. `memtrace help --json-fields` prints them, and
 * docs/json.md has them. */
#ifndef MT_CLI_JSON_PAGE_H
#define MT_CLI_JSON_PAGE_H

#include "cli/command.h"

/* Adds the answer of a command, or an introduction and all answers if `command` is NULL, in Markdown. */
void mt_json_page_add(const struct mt_command *command, struct mt_text *out);

#endif
