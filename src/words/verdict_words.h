/* The verdict of a dry run in English, and as rows: the figures, then each fact that makes them less than complete or
 * certain. */
#pragma once

#include "analysis/verdict.h"
#include "words/caveat_rows.h"
#include "words/observed_words.h"

/* The verdict about one run. */
struct mt_verdict_row {
    int64_t run, rank; /* the run's number in its trace; rank -1: it is no rank */
    const char *trace; /* borrowed */
    struct mt_verdict verdict;
    struct mt_caveat_lists caveats;
    struct mt_observations observations;
};

/* Describes the row: run, trace, rank, fits, bytes, outside, free, …, then the caveats and the observations. */
extern const struct mt_row_type mt_verdict_type;

/* Adds "peak 14.65 GiB live; needs 15.88 GiB of the card's 23.52 GiB (15.37 GiB reserved, 520.00 MiB outside PyTorch):
 * fits, 7.64 GiB free"; or how much was short and where, with the command that explains it, such as "memtrace oom --run
 * 1". */
void mt_verdict_add_answer(const struct mt_verdict_row *row, const char *explain, struct mt_text *out);

/* Adds "3 steps, ended since they repeat": the steps that ran, and why the run ended if that is known. */
void mt_verdict_add_end(const struct mt_verdict_row *row, struct mt_text *out);

/* Adds a line about each kind of caveat that the run has and about who holds memory that grows, each with its line
 * end. */
void mt_verdict_add_caveats(const struct mt_verdict_row *row, struct mt_text *out);

/* Returns the iteration in which growing memory fills the card before its loop is over, by estimate; -1 if it would
 * not. */
int64_t mt_verdict_fills_at(const struct mt_verdict_row *row);

/* True if something that could take memory is not known: an operator's scratch memory, code that did not run, growth, a
 * compiler that was left out, or which variant of a kernel a card takes. */
bool mt_verdict_is_uncertain(const struct mt_verdict_row *row);
