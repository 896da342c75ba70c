/* The answer of advise, for people. */
#ifndef MT_WORDS_ADVISE_REPORT_H
#define MT_WORDS_ADVISE_REPORT_H

#include "analysis/advise/advise_answer.h"
#include "answer/table.h"

/* Prints the answer. */
void mt_advise_print(const struct mt_advice_answer *answer, const struct mt_screen *screen);

#endif
