/* The largest value of an argument with which a program of PyTorch fits a device, found by dry runs (largest_search.h). Where
 * other arguments have lists of values, too, each combination of them has its own answer.
 *
 *   batch=1..512, seq=1024,2048, train.py --batch @batch --seq @seq   ──▶   seq 1024: batch 14; seq 2048: batch 6
 *
 * Threads: one at a time. */
#pragma once

#include "analysis/fit/dry_peak.h"
#include "analysis/fit/largest_search.h"
#include "producers/program/dry_child.h"
#include "producers/program/vary_grid.h"

/* The question. Borrows everything. */
struct mt_program_largest {
    const struct mt_dry_options *program;
    const struct mt_fit_device *device;
    const char *values;      /* "batch=1..512" (value_range.h) */
    const char *const *vary; /* "seq=1024,2048" */
    size_t vary_count;
};

/* A dry run. Owns `words`. */
struct mt_largest_trial {
    size_t cell;   /* the combination of the grid */
    int64_t index; /* of the range */
    mt_search_state state;
    bool is_killed;          /* a user or the kernel killed it, so nothing is known; its state is MT_SEARCH_FAILED */
    bool has_peak;           /* false: it failed, or needs more memory than any card has */
    struct mt_dry_peak peak; /* if has_peak */
    struct mt_text words;    /* why it has no peak; empty: it has one */
};

/* Owns its parts. The last list of the grid is the searched argument, with one value that is replaced for each trial. So a cell is
 * a combination of the other arguments. */
struct mt_largest_found {
    struct mt_value_range range;
    struct mt_vary_grid grid;
    struct mt_largest_search *searches; /* one for each cell */
    struct mt_largest_trial *trials;    /* an array for MT_HOST_ADD, in the order in which they ended */
    size_t count;
    uint64_t elapsed_ns;
    struct mt_text said; /* the end of the output of the first trial that failed */
};

/* Receives what happens during the search. NULL in its place: nobody listens. */
struct mt_largest_observer {
    void *context;
    /* Is called after each trial, which is the last one that was found. */
    void (*ended)(void *context, const struct mt_largest_found *found, const struct mt_largest_trial *trial,
                  const struct mt_program_outcome *outcome);
};

/* Searches. The dry runs are kept nowhere. A program that fails is no failure. Fails with MT_USAGE, before anything is run, for
 * values or lists that are invalid or that no argument uses, and for options that a dry run does not support; and if the program
 * can't be started, takes no memory of a card, or is interrupted. Release *out in any case. */
mt_status mt_program_largest_find(const struct mt_program_largest *question, const struct mt_largest_observer *observer,
                                  struct mt_largest_found *out);
void mt_program_largest_release(struct mt_largest_found *found);

/* Returns the trial of a cell with the value that a point of its search has; NULL if the point is NULL. */
const struct mt_largest_trial *mt_program_largest_trial(const struct mt_largest_found *found, size_t cell,
                                                        const struct mt_search_point *point);

/* True if the program ran with some value, whether it fits or not. */
bool mt_program_largest_any_ran(const struct mt_largest_found *found);

/* Returns "fits", "short", "failed" or "killed", as static text. */
const char *mt_largest_trial_state(const struct mt_largest_trial *trial);

/* Returns the capacity of the device less what the program reserves, as far as it is known. */
int64_t mt_largest_trial_room_bytes(const struct mt_largest_trial *trial);
