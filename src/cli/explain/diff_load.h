/* Loads the answer of diff: the comparison of two runs, with the published figures of theirs. */
#ifndef MT_CLI_DIFF_LOAD_H
#define MT_CLI_DIFF_LOAD_H

#include "words/diff_answer.h"

/* Loads all of an answer whose questions and key are set and whose other members are zero. Fails with MT_USAGE if a run can't be
 * compared. The caller releases the answer in any case. */
mt_status mt_diff_answer_load(struct mt_diff_answer *answer);

#endif
