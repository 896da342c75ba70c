/* A grid of dry runs of a program: values of its arguments that vary, and the memory that each combination needs.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/program/dry_child.h"
#include "producers/program/vary_grid.h"

/* A cell and its run. The state of a program that was killed from outside is "interrupted". Of several processes, the run is the first one's, the peaks are the largest, and the rank is the one that
 * reserves most. */
struct mt_swept_cell {
    const char *state; /* a name of mt_run_state_name */
    int64_t run;       /* 0: none */
    int64_t rank;      /* -1: it is no rank */
    uint64_t allocated_bytes, reserved_bytes;
    struct mt_text told; /* the state in words */
};

/* Receives what happens during a sweep. NULL in its place: nobody listens. */
struct mt_program_sweep_observer {
    void *context;
    /* Is called after each cell, in the order in which they end: it is the one with that number, from 1. */
    void (*ended)(void *context, const struct mt_vary_grid *grid, size_t cell, const struct mt_swept_cell *result,
                  size_t number);
};

struct mt_program_sweep {
    const struct mt_dry_options *program;
    const char *const *vary; /* "batch=2,4,8" */
    size_t vary_count;
    const char *device, *trace;
    const char *name; /* of the runs, before the values; NULL: the program's */
};

/* Invariant: cells[0 .. count) were run; count < grid.cell_count only after a failure. */
struct mt_program_sweep_found {
    struct mt_vary_grid grid;
    struct mt_swept_cell *cells;
    size_t count;
};

/* Runs the program dry for each combination, several at a time, and adds the runs to the trace in the grid's order, the last list
 * fastest. An argument of the program,
 * or the part after its =, is @NAME where it takes a value. A program that runs out of memory or fails is no failure. Fails
 * with MT_USAGE, before anything is run, for an invalid list, an @NAME that does not vary and a list that no argument uses.
 * Release *out in any case. */
mt_status mt_program_sweep_run(const struct mt_program_sweep *sweep, const struct mt_program_sweep_observer *observer,
                               struct mt_program_sweep_found *out);
void mt_program_sweep_release(struct mt_program_sweep_found *found);
