/* The largest value of an argument with which a PyTorch program fits a device, found by dry runs (largest_search.h). If
 * other arguments have lists of values, each combination of these has its own answer.
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
    int64_t index; /* into the range */
    mt_search_state state;
    bool is_killed; /* a user or the kernel killed it, so its result is unknown; its state is MT_SEARCH_FAILED */
    bool has_peak;  /* false: it failed, or needs more memory than any card has */
    struct mt_dry_peak peak; /* if has_peak */
    struct mt_text words;    /* why it has no peak; empty if it has one */
};

/* Owns its parts. The last list of the grid is the searched argument; its one value is replaced for each trial. So a
 * cell is a combination of the other arguments. */
struct mt_largest_found {
    struct mt_value_range range;
    struct mt_vary_grid grid;
    struct mt_largest_search *searches; /* one for each cell */
    struct mt_largest_trial *trials;    /* in the order in which they ended; an array for MT_HOST_ADD */
    size_t count;
    uint64_t elapsed_ns;
    struct mt_text said; /* the end of the output of the first trial that failed */
};

/* Callbacks during the search. The observer may be NULL. */
struct mt_largest_observer {
    void *context;
    /* Called after each trial, which is the last one in `found`. */
    void (*ended)(void *context, const struct mt_largest_found *found, const struct mt_largest_trial *trial,
                  const struct mt_program_outcome *outcome);
};

/* Runs the search. The traces of the dry runs are removed. A program that fails is not an error. Fails with MT_USAGE,
 * before running anything, for values or lists that are invalid or that no argument uses, and for options that a dry
 * run does not support. Also fails if the program can't be started, allocates nothing on a card, or is interrupted.
 * Release *out in any case. */
mt_status mt_program_largest_find(const struct mt_program_largest *question, const struct mt_largest_observer *observer,
                                  struct mt_largest_found *out);
void mt_program_largest_release(struct mt_largest_found *found);

/* Returns a cell's trial with the value of a point of its search; NULL if the point is NULL. */
const struct mt_largest_trial *mt_program_largest_trial(const struct mt_largest_found *found, size_t cell,
                                                        const struct mt_search_point *point);

/* True if the program ran with some value, whether it fits or not. */
bool mt_program_largest_any_ran(const struct mt_largest_found *found);

/* Returns "fits", "short", "failed" or "killed", as static text. */
const char *mt_largest_trial_state(const struct mt_largest_trial *trial);

/* Returns the capacity of the device minus the program's reserved bytes, as far as they are known. */
int64_t mt_largest_trial_room_bytes(const struct mt_largest_trial *trial);
