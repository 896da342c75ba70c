/* Words of a command line that look like a run or a trace, and the option for them.
 *
 * Threads: any. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

/* True if a misplaced word looks like a run or a trace: a number, or a name that ends in .db. */
bool mt_run_word_is(const char *text);

/* Returns the option for a word: "--trace" for a trace's file or folder, otherwise "--run". Static. */
const char *mt_run_word_option(const char *text);

/* Adds to a failure how to pass the text with that option. Returns the status. */
mt_status mt_run_word_hint(const char *text, mt_status status);
