/* The answer of advise, for people. */
#pragma once

#include "analysis/advise/advise_answer.h"
#include "answer/table.h"

/* Prints the answer. */
void mt_advise_print(const struct mt_advice_answer *answer, const struct mt_screen *screen);
