/* Hints in words: the option of memtrace run, or the change of a program, that mends a finding. */
#ifndef MT_CLI_HINT_WORDS_H
#define MT_CLI_HINT_WORDS_H

#include "analysis/advise.h"

/* Returns static text. */
const char *mt_hint_words(mt_hint hint);

#endif
