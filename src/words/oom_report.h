/* The answer about a run that ended out of memory, for people. */
#ifndef MT_WORDS_OOM_REPORT_H
#define MT_WORDS_OOM_REPORT_H

#include "analysis/oom/oom.h"
#include "answer/table.h"

/* Prints the answer. */
void mt_oom_print(const struct mt_oom_answer *answer, const struct mt_screen *screen);

#endif
