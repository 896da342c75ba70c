/* The answer about a run that ended out of memory, for people. */
#pragma once

#include "analysis/oom/oom.h"
#include "answer/table.h"

/* Prints the answer. */
void mt_oom_print(const struct mt_oom_answer *answer, const struct mt_screen *screen);
