/* The runs in a diff's two traces for each sequence length, with their published figures. */
#pragma once

#include "words/diff_answer.h"

/* Adds the lengths to a loaded answer, unless the two runs differ in length. */
mt_status mt_diff_lengths_load(struct mt_diff_answer *answer);
