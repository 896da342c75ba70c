/* The grid of a sweep: lists of values for some settings of a run, and a cell for each combination. The last axis in
 * the order of the settings' table changes fastest.
 *
 * A cell's values are parsed as `run` parses its options, so that a cell is equal to the run of `memtrace run` with the
 * same values. */
#pragma once

#include "cli/run/run_options.h"

/* One run of the grid. */
struct mt_sweep_cell {
    char *name;                          /* NULL: none */
    const char *value[MT_SETTING_COUNT]; /* of the axes, as given; NULL: the default */
    struct mt_run_plan plan;
};

/* Owns its cells and their texts.
 * Invariant: cell_count is the product of the axes' counts; an axis that was not given counts as one. */
struct mt_sweep_grid {
    struct mt_sweep_cell *cells;
    size_t cell_count;
    char *texts[MT_SETTING_COUNT];        /* the axes' lists, split into values */
    size_t value_count[MT_SETTING_COUNT]; /* 0: not given, or not an axis */
};

/* Creates and checks the cells of `base`. Its settings that are axes (model/settings.h) have lists of values, separated
 * by commas. Settings of an allocator contain commas, so each value begins at "policy=". If `base` has a name, a cell's
 * name consists of it and the cell's values of the axes that vary. Borrows the texts of `base`. Fails with MT_USAGE for
 * an empty, repeated or invalid value, or an invalid combination. The caller releases the grid, also after a
 * failure. */
mt_status mt_sweep_grid_create(const struct mt_run_options *base, struct mt_sweep_grid *out);
void mt_sweep_grid_release(struct mt_sweep_grid *grid);
