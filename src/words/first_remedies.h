/* What to change first about a run, in words: what memtrace advise prints before its tables. The page shows the same in
 * the same order. */
#pragma once

#include "analysis/advise/advise_answer.h"
#include "words/remedy_list.h"

/* Adds the first finding and, before it, the first change if it saves more. It has to save twice as much as an option,
 * which is easier. Nothing if neither saves. */
void mt_first_remedies_add_waste(struct mt_remedy_list *remedies, const struct mt_advice_answer *answer);

/* Adds the option of memtrace run that lowers the peak most, if that is more than the first finding does. */
void mt_first_remedies_add_option(struct mt_remedy_list *remedies, const struct mt_advice_answer *answer);
