/* Words of a command line that stand for a run or a trace: which option names them.
 *
 * Threads: any. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

/* True if a text that stands where something else does means a run or a trace: a number, or a name that ends in .db. */
bool mt_run_word_is(const char *text);

/* Returns the option that names what a text seems to be: "--trace" of a trace's file or folder, else "--run". Static. */
const char *mt_run_word_option(const char *text);

/* Adds to a failure how that option names the text. Returns the status. */
mt_status mt_run_word_hint(const char *text, mt_status status);
