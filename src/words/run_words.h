/* Runs and changes of them as people type them: options, and commands to paste into a shell. */
#pragma once

#include "analysis/fit/fit.h"
#include "answer/table.h"
#include "producers/model/settings.h"

enum { MT_RUN_OPTION_BYTES = 64 };

/* Puts the option of a setting into `out` and returns it: "--zero-grad" for "zero_grad". */
const char *mt_run_option_spell(mt_setting setting, char out[MT_RUN_OPTION_BYTES]);

/* Adds the run as the command that makes it, to be pasted into a shell: "memtrace run --device … --model … …". The
 * device, the model, sequence and batch are in it, and the settings that are not usual; the name and the trace are
 * not. */
void mt_run_command_add(const struct mt_run_plan *plan, struct mt_text *out);

/* Adds "run 3 (baseline)". */
void mt_text_add_run_name(struct mt_text *out, const struct mt_run *run);

/* Prints "run 3 (baseline), sim:h200, done, 3 steps" and a blank line. */
void mt_run_title_print(const struct mt_run *run, const struct mt_screen *screen);

/* Adds the options that make a remedy: "--zero-grad before-forward --batch 2". */
void mt_fit_remedy_add_changes(const struct mt_fit_remedy *remedy, struct mt_text *out);
