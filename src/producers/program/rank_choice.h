/* Chooses ranks that stand for all, for programs with so many ranks that running all would take long.
 *
 * Ranks of a job form a grid: a rank's place along its data, tensor and pipeline dimensions are digits of its number in
 * a mixed radix. The radix is unknown, so the prime factors of the number of ranks are used, the smallest first. A
 * first round runs rank 0, the last rank, and the ranks that differ from rank 0 in one digit, by its least or greatest
 * value. Digits without an effect are ignored; the second round runs each combination of the others. A rank that did
 * not run is like the rank with the same values of these digits.
 *
 * Threads: one at a time for an object. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MT_MOST_DIGITS = 20 };

/* Invariant: the product of radix[0 .. digits) is the number of ranks. */
struct mt_rank_choice {
    int64_t ranks;
    int digits;
    int64_t radix[MT_MOST_DIGITS];
    bool counts[MT_MOST_DIGITS]; /* the digit has an effect: ranks that differ in it differ in memory */
};

void mt_rank_choice_begin(int64_t ranks, struct mt_rank_choice *out);

/* Calls `add` with each rank of the first round. */
void mt_rank_choice_first(const struct mt_rank_choice *choice, void (*add)(void *context, int64_t rank), void *context);

/* Marks the digits with an effect. `is_like_first` is true for a rank of the first round with the same requests as rank
 * 0. */
void mt_rank_choice_learn(struct mt_rank_choice *choice, bool (*is_like_first)(void *context, int64_t rank),
                          void *context);

/* Returns the rank that stands for a rank: its digits without an effect are 0. */
int64_t mt_rank_choice_stand_in(const struct mt_rank_choice *choice, int64_t rank);
