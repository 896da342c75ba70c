/* The answer of memtrace advise on the screen: a headline, the peaks, the findings with what they mean, and options. */
#ifndef MT_CLI_EXPLAIN_ADVISE_REPORT_H
#define MT_CLI_EXPLAIN_ADVISE_REPORT_H

#include "analysis/advise/advise_answer.h"

/* Prints the answer. */
void mt_advise_report(const struct mt_advice_answer *answer);

#endif
