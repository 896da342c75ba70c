/* A grid of dry runs of a program: values of its arguments that vary, and the memory that each combination needs.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/program/dry_child.h"
#include "producers/program/vary_grid.h"

/* A cell and its run. The state of a program that was killed from outside is "interrupted". For several processes, the
 * run is the first one's, the peaks are the largest, and the rank is the one that reserves most. */
struct mt_swept_cell {
    const char *state; /* a name of mt_run_state_name */
    int64_t run;       /* 0: none */
    int64_t rank;      /* -1: not a rank */
    uint64_t allocated_bytes, reserved_bytes;
    struct mt_text told; /* the state in words */
};

/* Callbacks during a sweep. The observer may be NULL. */
struct mt_program_sweep_observer {
    void *context;
    /* Called after each cell, in the order in which they end, with its number in that order, from 1. */
    void (*ended)(void *context, const struct mt_vary_grid *grid, size_t cell, const struct mt_swept_cell *result,
                  size_t number);
};

struct mt_program_sweep {
    const struct mt_dry_options *program;
    const char *const *vary; /* "batch=2,4,8" */
    size_t vary_count;
    const char *device, *trace;
    const char *name; /* of the runs, followed by the values; NULL: the program's */
};

/* Invariant: cells[0 .. count) were run; count < grid.cell_count only after a failure. */
struct mt_program_sweep_found {
    struct mt_vary_grid grid;
    struct mt_swept_cell *cells;
    size_t count;
};

/* Dry-runs the program for each combination, several at a time, and adds the runs to the trace in the grid's order, in
 * which the last list changes fastest. An argument of the program, or the part after its =, is @NAME where a value
 * goes. A program that runs out of memory or fails is not an error. Fails with MT_USAGE, before running anything, for
 * an invalid list, an @NAME without a list and a list that no argument uses. Release *out in any case. */
mt_status mt_program_sweep_run(const struct mt_program_sweep *sweep, const struct mt_program_sweep_observer *observer,
                               struct mt_program_sweep_found *out);
void mt_program_sweep_release(struct mt_program_sweep_found *found);
