/* The grid of a sweep: lists of values for some options of `run`, and a cell for each combination of them.
 *
 * A cell's options are read with run's own table, so that a cell is the very run that `memtrace run` makes of the same
 * words. */
#ifndef MT_CLI_SWEEP_GRID_H
#define MT_CLI_SWEEP_GRID_H

#include "cli/run/run_options.h"

/* What can vary, from the slowest to the fastest: the order of the cells. */
typedef enum mt_sweep_axis {
    MT_AXIS_MODEL,
    MT_AXIS_MODE,
    MT_AXIS_AUTOCAST,
    MT_AXIS_ATTENTION,
    MT_AXIS_SEQ,
    MT_AXIS_BATCH,
    MT_AXIS_ZERO_GRAD,
    MT_AXIS_IMPL,
    MT_AXIS_WEIGHT_CAST,
    MT_AXIS_CHECKPOINT,
    MT_AXIS_OPTIMIZER_IN_BACKWARD,
    MT_AXIS_ALLOC,
    MT_AXIS_COUNT
} mt_sweep_axis;

/* One run of the grid. */
struct mt_sweep_cell {
    char *name;                       /* NULL: none */
    const char *value[MT_AXIS_COUNT]; /* as given; NULL: the default */
    struct mt_run_plan plan;
};

/* Owns its cells and their texts.
 * Invariant: cell_count is the product of the axes' counts, where an axis that was not given counts as one. */
struct mt_sweep_grid {
    struct mt_sweep_cell *cells;
    size_t cell_count;
    char *texts[MT_AXIS_COUNT];        /* the lists, cut into values */
    size_t value_count[MT_AXIS_COUNT]; /* 0: not given */
};

/* Makes the cells of `lists` (by axis, comma-separated; NULL: not given) with everything else as `base` says, and checks
 * them all: MT_USAGE for an empty, repeated or wrong value, or a combination that can't be run. Settings of an allocator
 * have commas themselves: there a value begins at "policy=". With a name in `base` each cell has that and its values of
 * the axes that vary. Borrows the texts of `base`. Release in any case. */
mt_status mt_sweep_grid_create(const struct mt_run_options *base, const char *const lists[MT_AXIS_COUNT],
                               struct mt_sweep_grid *out);
void mt_sweep_grid_release(struct mt_sweep_grid *grid);

/* The option of an axis: "--model". */
const char *mt_sweep_axis_option(mt_sweep_axis axis);

#endif
