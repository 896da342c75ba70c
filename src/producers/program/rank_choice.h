/* The choice of ranks that stand for all, for programs of so many that all would take long.
 *
 * Ranks of a job form a grid: a rank's place along its data, tensor and pipeline dimensions are digits of its number in a mixed radix.
 * Which radix is not known, so the prime factors of the number of ranks are taken, the smallest first. A first round runs
 * rank 0, the last rank, and those that differ from rank 0 in one digit, by its least or its most. Digits that change nothing
 * are left out of account; the second round runs each combination of the others. What was not run is like the one with the
 * same digits that count.
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
    bool counts[MT_MOST_DIGITS]; /* ranks that differ in this digit are not alike */
};

void mt_rank_choice_begin(int64_t ranks, struct mt_rank_choice *out);

/* Calls `add` with each rank of the first round. */
void mt_rank_choice_first(const struct mt_rank_choice *choice, void (*add)(void *context, int64_t rank), void *context);

/* Marks the digits that count. `is_like_first` says of a rank of the first round whether it made rank 0's requests. */
void mt_rank_choice_learn(struct mt_rank_choice *choice, bool (*is_like_first)(void *context, int64_t rank),
                          void *context);

/* Returns the rank that stands for a rank: the one whose digits that do not count are 0. */
int64_t mt_rank_choice_stand_in(const struct mt_rank_choice *choice, int64_t rank);
