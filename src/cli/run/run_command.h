/* A run as the command that makes it, to be pasted into a shell. */
#ifndef MT_CLI_RUN_COMMAND_H
#define MT_CLI_RUN_COMMAND_H

#include "analysis/session.h"

/* Adds "memtrace run --device … --model … …": the device, the model, sequence and batch, and the settings that are not
 * usual. `run` makes a plan with this configuration, allocator and device of it. Name and trace are left out. */
void mt_run_command_add(const struct mt_run_plan *plan, struct mt_text *out);

#endif
