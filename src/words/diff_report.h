/* A diff for people: the answer in one sentence, then its evidence. */
#pragma once

#include "answer/table.h"
#include "words/diff_answer.h"

/* The extent of a diff: the most rows of live memory, unless all are shown and causes that matter little too. */
struct mt_diff_extent {
    int64_t rows;
    bool all;
};

/* Prints the answer. */
void mt_diff_print(const struct mt_diff_answer *answer, const struct mt_diff_extent *how,
                   const struct mt_screen *screen);
