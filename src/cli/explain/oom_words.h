/* The changes that would have sufficed in words, and the printing of the answer of `memtrace oom`. */
#ifndef MT_CLI_OOM_WORDS_H
#define MT_CLI_OOM_WORDS_H

#include "analysis/oom.h"
#include "base/text.h"
#include "cli/output/question.h"

/* Adds the change in words: options of memtrace run, or the blocks that are live for too long. */
void mt_oom_change_add(const struct mt_oom_change *change, struct mt_text *out);

/* Adds the way to make the change: a command to paste, or words. */
void mt_oom_change_add_way(const struct mt_oom_change *change, struct mt_text *out);

/* Print the answer: for people, or as JSON. */
void mt_oom_answer_print(const struct mt_oom_answer *answer);
void mt_oom_answer_print_json(const struct mt_oom_answer *answer);

#endif
