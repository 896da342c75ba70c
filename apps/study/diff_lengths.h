/* The runs of a diff's two traces at each sequence length, with the published figures of theirs. */
#pragma once

#include "words/diff_answer.h"

/* Adds the lengths to an answer that was loaded, unless the two runs differ in length. */
mt_status mt_diff_lengths_load(struct mt_diff_answer *answer);
